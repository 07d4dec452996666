"""A booking in the whole operator, on the double of the API server: GPUs are kept, the status says so, and it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import BOOKINGS, QUEUES
from tests.controller.execution.replica import Replica, phase, simulate_time, status, submit

pytestmark = pytest.mark.looptime
GPU_CLASS = "H100"


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


async def run(replica: Replica, seconds: float = 5.0) -> None:
    """The loop and the reconciler of bookings; the watch hands on what happens."""
    await replica.operator.feed.resync()
    parts = [one.run() for one in replica.operator.composites if one.composite.resource == BOOKINGS]
    tasks = [asyncio.create_task(one) for one in (*parts, replica.operator.event_recorder.run())]
    await replica.run(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def book(replica: Replica, **changes: Any) -> None:
    spec = {
        "queue": "red",
        "gpuClass": GPU_CLASS,
        "gpus": 4,
        "start": "2026-01-01T00:00:01Z",
        "end": "2026-01-01T00:00:15Z",
    }
    document = {
        "apiVersion": names.API_VERSION,
        "kind": "Booking",
        "metadata": {"name": "demo"},
        "spec": spec | changes,
    }
    replica.kube.put(BOOKINGS, document)


def booking(replica: Replica) -> dict[str, Any]:
    return (replica.kube.stored(BOOKINGS, "demo") or {}).get("status") or {}


def limited(replica: Replica, limit: int = 2) -> None:
    document = replica.kube.stored(QUEUES, "red") or {}
    quotas = [{"guaranteed": 0, "limit": limit}]
    replica.kube.put(QUEUES, document | {"spec": {"namespaces": ["red"], "quotas": quotas}})


async def test_a_job_beyond_the_limit_starts_with_the_booking_of_its_queue_and_goes_on_when_that_is_over() -> None:
    replica = Replica()
    limited(replica)
    submit(replica.kube)  # four GPUs
    await run(replica, 2.0)
    before = status(replica.kube)["pending"]["reason"]

    book(replica)
    await run(replica, 8.0)
    during = booking(replica)
    started = phase(replica.kube)
    await run(replica, 15.0)

    assert (before, started, phase(replica.kube)) == ("ExceedsLimit", "Starting", "Starting")
    assert (during["phase"], during["granted"], during["used"]) == ("Active", 4, "4")
    assert booking(replica)["phase"] == "Ended"


async def test_a_booking_that_cannot_be_held_to_says_so() -> None:
    replica = Replica()
    book(replica, queue="nobody")
    await run(replica, 12.0)

    assert booking(replica)["phase"] == "Overbooked"
    assert booking(replica)["message"].endswith("But there is no queue nobody")


async def test_a_booking_that_is_deleted_counts_no_more() -> None:
    replica = Replica()
    limited(replica)
    book(replica)
    await run(replica)
    replica.kube.remove(BOOKINGS, "demo")
    submit(replica.kube)
    await run(replica)

    assert status(replica.kube)["pending"]["reason"] == "ExceedsLimit"
