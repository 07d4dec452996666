"""The status of a booking: its phase, how much of it is kept, and why not all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.api.conversion.booking_terms import terms_of
from cotenant.api.conversion.to_core import parse_booking
from cotenant.api.resources.bookings import Booking, BookingStatus
from cotenant.controller.composites.bookings.booking_step import LastDecision, next_step
from cotenant.core.model.plan import BookedGpus
from cotenant.core.quota.bookings import BookingStanding

START, END = 1_767_225_600.0, 1_767_225_660.0


def booking(phase: str = "") -> Booking:
    spec = {
        "queue": "red",
        "gpuClass": "H100",
        "gpus": 2,
        "start": "2026-01-01T00:00:00Z",
        "end": "2026-01-01T00:01:00Z",
    }
    return parse_booking(
        {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "Booking",
            "metadata": {"name": "demo"},
            "spec": spec,
            "status": {"phase": phase},
        }
    )


ALL = LastDecision(
    BookingStanding(booking=terms_of(booking()), gpus=2), BookedGpus((("n1", "GPU-0"), ("n1", "GPU-1")), 0)
)
PART = replace(ALL, standing=replace(ALL.standing, gpus=1, why="1 of 2 GPUs of class H100 can be booked: guarantees"))


@pytest.mark.parametrize(
    ("last", "now", "phase", "says"),
    [
        (None, START - 1, "Pending", "from 2026-01-01T00:00:00Z until 2026-01-01T00:01:00Z"),
        (ALL, START - 1, "Pending", ": 0 in use by it, 2 kept for it"),
        (ALL, START, "Active", "for queue red until 2026-01-01T00:01:00Z: 0 in use by it, 2 kept for it"),
        (replace(ALL, gpus=BookedGpus((), 2_000)), START, "Active", ": 2 in use by it, 0 kept for it"),
        (ALL, END, "Ended", "until 2026-01-01T00:01:00Z, which is over"),
        (PART, START - 1, "Overbooked", ". But 1 of 2 GPUs of class H100 can be booked: guarantees"),
        (
            replace(ALL, gpus=BookedGpus((("n1", "GPU-0"),), 0)), START - 1, "Overbooked",
            ". But 1 GPU of it is held by jobs that may run beyond its start: with a maxRuntime that ends before they"
            " would not",
        ),
        (
            replace(ALL, gpus=BookedGpus((), 0)), START, "Overbooked",
            ". But 2 GPUs of it are held by jobs that nobody may evict for it: they are free when these end",
        ),
    ],
)  # fmt: skip
def test_its_phase_follows_from_the_time_and_from_what_is_there(
    last: LastDecision | None, now: float, phase: str, says: str
) -> None:
    status = BookingStatus.model_validate(next_step(booking(), last, now).status)
    assert status.phase == phase
    assert says in status.message


def test_each_phase_is_told_once_and_an_end_is_the_end() -> None:
    step = next_step(booking("Pending"), ALL, START)
    assert [(one.reason, one.warning) for one in step.events] == [("BookingActive", False)]
    assert next_step(booking("Active"), ALL, START).events == ()
    assert next_step(booking("Active"), ALL, END).look_again_at is None


def test_what_is_not_decided_yet_is_not_claimed() -> None:
    status = BookingStatus.model_validate(next_step(booking(), None, START).status)
    (condition,) = status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Fulfilled", "Unknown", "NotDecided")
