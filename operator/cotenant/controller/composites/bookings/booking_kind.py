"""Booking as a composite that owns nothing: its status is decided from the last plan."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.api.conversion.booking_terms import terms_of
from cotenant.api.conversion.to_core import parse_booking
from cotenant.controller.client.kube import BOOKINGS
from cotenant.controller.composites.bookings.booking_step import LastDecision, next_step
from cotenant.controller.composites.composite import Composite, Observed, Writes
from cotenant.controller.informers.cache import ObjectCache


@dataclass(frozen=True, slots=True)
class BookingKind(Composite):
    resource = BOOKINGS
    kind = "Booking"

    cache: ObjectCache

    def decide(self, observed: Observed, now: float) -> Writes:
        booking = parse_booking(observed.document)
        terms, known = terms_of(booking), self.cache.booked.get(booking.metadata.final_name)
        last = LastDecision(*known) if known is not None and known[0].booking == terms else None
        return next_step(booking, last, now)
