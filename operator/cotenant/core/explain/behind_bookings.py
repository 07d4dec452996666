"""What bookings mean for a waiting job: which ones block it, and when a booking of its own queue starts."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.booked_places import BookedPlace, BookedPlaces
from cotenant.core.cycle.search import fits
from cotenant.core.model.formatting import format_instant
from cotenant.core.model.objects import WHOLE
from cotenant.core.model.plan import WAITING_FOR_SPACE, Reason, Refusal


def behind_bookings(refusal: Refusal, booked: BookedPlaces, current: Occupancy, request: Request) -> Refusal:
    """The refusal with the reason GPUsBooked, if the request would fit without what is kept for bookings. Otherwise the
    same refusal.

    `current`: including what is kept for bookings; it is left as it was.
    """
    if refusal.reason not in WAITING_FOR_SPACE:
        return refusal
    ahead = [place for place in booked.places if place.allocation.nodes and booked.concerns(place, request)]
    if not ahead:
        return refusal
    with current.trial():
        for place in ahead:
            current.release(place.allocation)
        if not fits(current, request):
            return refusal
    names = ", ".join(place.booking.name for place in ahead)
    until = format_instant(max(place.booking.ends_at for place in ahead))
    return replace(
        refusal,
        reason=Reason.GPUS_BOOKED,
        message=f"{refusal.message} There is room on GPUs that are booked: {'; '.join(map(_what, ahead))}."
        " Until the bookings start, a job may use these GPUs if its maxRuntime ends before, or if it may be evicted for"
        " their queue.",
        evidence=(*refusal.evidence, ("bookings", names), ("booked_until", until)),
    )


def starts_with_booking(booked: BookedPlaces, request: Request) -> float | None:
    """When the next booking of its own queue starts that is large enough for the request; None if there is none."""
    starts = [
        place.booking.starts_at
        for place in booked.places
        if booked.is_of(place, request.queue)
        and not booked.is_active(place.booking)
        and booked.concerns(place, request)
        and place.used + request.least_milli <= place.gpus * WHOLE
    ]
    return min(starts, default=None)


def _what(place: BookedPlace) -> str:
    booking = place.booking
    since, until = format_instant(booking.starts_at), format_instant(booking.ends_at)
    return f"{booking.what} for queue {booking.queue} from {since} until {until} (booking {booking.name})"
