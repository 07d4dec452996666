"""Queues with what is booked for them, as time passes and bookings come and go."""

from __future__ import annotations

from cotenant.core.quota.bookings import BookingTerms
from cotenant.core.state.booked_queues import BookedQueues
from tests.support.clusters import make_node, make_queue

QUEUES, NODES = {"red": make_queue("red", guaranteed=1)}, {"n1": make_node("n1", gpus=4)}
TERMS = BookingTerms(name="demo", queue="red", gpu_class="H100", gpus=2, starts_at=100.0, ends_at=200.0)


def test_quotas_change_only_when_a_booking_starts_or_ends() -> None:
    booked = BookedQueues()
    assert booked.put(TERMS)
    assert not booked.put(TERMS)
    changes = {now: booked.update(QUEUES, NODES, now) for now in (0.0, 99.0, 100.0, 150.0, 200.0, 300.0)}
    assert changes == {0.0: False, 99.0: False, 100.0: True, 150.0: False, 200.0: True, 300.0: False}


def test_a_dropped_booking_gives_its_guarantee_back() -> None:
    booked = BookedQueues()
    booked.put(TERMS)
    booked.update(QUEUES, NODES, 100.0)
    assert booked.drop("demo")
    assert booked.update(QUEUES, NODES, 101.0)
    assert (booked.queues, booked.standings) == (QUEUES, ())
    assert not booked.drop("demo")
