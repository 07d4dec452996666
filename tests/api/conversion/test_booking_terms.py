"""A Booking as the core knows it."""

from __future__ import annotations

from cotenant.api.conversion.booking_terms import terms_of
from cotenant.api.conversion.to_core import parse_booking
from cotenant.core.quota.bookings import BookingTerms


def test_moments_are_read_in_utc() -> None:
    spec = {
        "queue": "red", "gpuClass": "H100", "zone": "eu-1", "gpus": 4,
        "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:01:00Z",
    }  # fmt: skip
    document = {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "Booking",
        "metadata": {"name": "demo", "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": spec,
    }
    at = 1_767_225_600.0
    assert terms_of(parse_booking(document)) == BookingTerms(
        name="demo",
        queue="red",
        gpu_class="H100",
        zone="eu-1",
        gpus=4,
        starts_at=at,
        ends_at=at + 60.0,
        since=at - 86_400.0,
    )
