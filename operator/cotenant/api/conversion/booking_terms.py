"""Bookings → what the core knows of them."""

from __future__ import annotations

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.bookings import Booking
from cotenant.core.quota.bookings import BookingTerms


def terms_of(booking: Booking) -> BookingTerms:
    """Terms of a booking; of two that compete, the one that was made first comes first."""
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
