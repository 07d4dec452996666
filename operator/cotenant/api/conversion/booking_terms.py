"""Bookings → the terms that the core needs."""

from __future__ import annotations

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.bookings import Booking
from cotenant.core.quota.bookings import BookingTerms


def terms_of(booking: Booking) -> BookingTerms:
    """Terms of the Bookings. If two compete, the older one comes first."""
    spec, metadata = booking.spec, booking.metadata
    return BookingTerms(
        name=metadata.final_name,
        queue=spec.queue,
        gpu_class=spec.gpu_class,
        zone=spec.zone,
        gpus=spec.gpus,
        starts_at=spec.start_at,
        ends_at=spec.end_at,
        since=unix_seconds(metadata.creation_timestamp) or 0.0,
    )
