"""How much of a booking is granted beside guarantees and other bookings, and what its queue has while it is active."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.core.model.objects import WHOLE, Quota, TenantQueue
from cotenant.core.quota.bookings import BookingTerms, capacity_of, with_bookings
from tests.support.clusters import make_node, make_queue

EIGHT = {("H100", "a"): 4 * WHOLE, ("H100", "b"): 4 * WHOLE}
RED, BLUE = make_queue("red", guaranteed=3), make_queue("blue", guaranteed=3)


def booked(name: str = "demo", queue: str = "red", gpus: int = 4, **changes: Any) -> BookingTerms:
    given: dict[str, Any] = {"gpu_class": "H100", "starts_at": 100.0, "ends_at": 200.0} | changes
    return BookingTerms(name=name, queue=queue, gpus=gpus, **given)


def granted(bookings: list[BookingTerms], queues: list[TenantQueue], now: float = 0.0) -> list[int]:
    _, standings = with_bookings({one.name: one for one in queues}, bookings, EIGHT, now)
    return [one.gpus for one in standings]


@pytest.mark.parametrize(
    ("bookings", "queues", "found"),
    [
        ([booked(gpus=5)], [RED, BLUE], [5]),
        ([booked(gpus=6)], [RED, BLUE], [5]),
        ([booked(gpus=5), booked("later", "blue", since=1.0)], [RED, BLUE], [5, 3]),
        ([booked(gpus=5), booked("after", gpus=5, starts_at=200.0, ends_at=300.0)], [RED, BLUE], [5, 5]),
        ([booked(gpus=3), booked("again", gpus=3, since=1.0)], [RED, BLUE], [3, 2]),
        ([booked(gpus=9)], [make_queue("red")], [8]),
        ([booked(gpus=5, zone="a")], [make_queue("red")], [4]),
        ([booked(gpus=4, zone="a")], [make_queue("red"), make_queue("blue", guaranteed=2, zone="a")], [2]),
        ([booked(gpus=4, zone="a")], [make_queue("red"), make_queue("blue", guaranteed=4)], [4]),
        ([booked(gpus=4, zone="a")], [make_queue("red"), make_queue("blue", guaranteed=6)], [2]),
        ([booked(ends_at=0.0, starts_at=-5.0)], [RED], []),
    ],
    ids=[
        "its own guarantee counts towards it",
        "no more than nobody is guaranteed",
        "the earlier one comes first",
        "one after the other",
        "two of one queue share its guarantee",
        "no more than there is",
        "no more than there is in the zone",
        "what is guaranteed in the zone",
        "a wider guarantee has room elsewhere",
        "or has not",
        "one that is over",
    ],
)
def test_a_booking_takes_nothing_from_guarantees_and_earlier_bookings(
    bookings: list[BookingTerms], queues: list[TenantQueue], found: list[int]
) -> None:
    assert granted(bookings, queues) == found


def test_a_refused_booking_names_the_numbers() -> None:
    _, (standing,) = with_bookings({"red": RED, "blue": BLUE}, [booked(gpus=6)], EIGHT, 0.0)
    assert standing.why == (
        "5 of 6 GPUs of class H100 can be booked: 6 GPUs of class any, zone any are guaranteed to queues, and a booking"
        " cannot use them"
    )


GROUP = make_queue("group", guaranteed=4, limit=4)


@pytest.mark.parametrize(
    ("queues", "why"),
    [
        ([BLUE], "there is no queue red"),
        (
            [make_queue("red", guaranteed=1, gpu_class="H100", zone="a")],
            "queue red has a quota for zone a alone; book each zone by itself",
        ),
        (
            [make_queue("red", parent="group"), make_queue("group", guaranteed=1, gpu_class="L4")],
            "queue group above has no quota that covers 4 GPUs of class H100",
        ),
        (
            [make_queue("red"), make_queue("blue", parent="red", guaranteed=1)],
            "queue red has no quotas of its own and only groups others; book for one of them",
        ),
    ],
)
def test_a_booking_gets_no_more_than_its_queue_could_use(queues: list[TenantQueue], why: str) -> None:
    _, (standing,) = with_bookings({one.name: one for one in queues}, [booked()], EIGHT, 0.0)
    assert (standing.gpus, standing.why) == (0, why)


@pytest.mark.parametrize(("now", "guaranteed"), [(99.0, 3), (100.0, 5), (199.0, 5), (200.0, 3)])
def test_an_active_booking_guarantees_its_gpus_to_its_queue(now: float, guaranteed: int) -> None:
    queues, _ = with_bookings({"red": RED, "blue": BLUE}, [booked(gpus=5)], EIGHT, now)
    assert queues == {"red": make_queue("red", guaranteed=guaranteed), "blue": BLUE}


def test_queues_above_get_as_much_more_and_a_queue_without_a_quota_line_gets_one() -> None:
    child = make_queue("red", parent="group")
    queues, _ = with_bookings({"red": child, "group": GROUP}, [booked(gpus=2)], EIGHT, 150.0)
    line = Quota(gpu_class="H100", guaranteed=2 * WHOLE, limit=2 * WHOLE)
    assert queues["red"].quotas == (line,)
    assert queues["group"].quotas == (Quota(guaranteed=6 * WHOLE, limit=6 * WHOLE),)


def test_gpus_that_take_no_work_cannot_be_booked() -> None:
    assert capacity_of([make_node("n1", zone="a"), make_node("n2", ready=False)]) == {("H100", "a"): 2 * WHOLE}
