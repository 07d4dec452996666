"""A job that waits because of a booking is told its name; no other job is."""

from __future__ import annotations

import pytest

from cotenant.core.model.plan import Reason
from cotenant.core.quota.bookings import BookingTerms
from cotenant.core.state.facts import BookingObserved
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue


@pytest.mark.parametrize(
    ("gpus", "classes", "reason"),
    [
        (2, (), Reason.GPUS_BOOKED),
        (3, (), Reason.WAITING_FOR_GPUS),
        (2, ("L4",), Reason.WAITING_FOR_GPUS),
    ],
    ids=["it would fit there", "it would not fit there either", "they are of another class"],
)
def test_a_booking_is_named_if_nothing_else_is_in_the_way(gpus: int, classes: tuple[str, ...], reason: Reason) -> None:
    toy = ToyCluster(
        [make_node("n1", gpus=4), make_node("n2", gpus=4, gpu_class="L4")],
        [make_queue("red"), make_queue("blue", guaranteed=4)],
    )
    terms = BookingTerms(name="demo", queue="red", gpu_class="H100", gpus=2, starts_at=100.0, ends_at=200.0)
    toy.state.observe(BookingObserved(terms))
    toy.observe(make_job("holds", queue="blue", gpus=2, classes=("H100",)))
    toy.observe(make_job("fills", queue="blue", gpus=3, classes=("L4",)))
    toy.cycle()
    toy.observe(make_job("asks", queue="blue", gpus=gpus, classes=classes or ("H100",), at=1.0))
    assert toy.cycle().verdicts["blue/asks"].reason is reason
