"""Jobs on booked GPUs: before the booking starts, while it is active, and after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.model.formatting import format_instant
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import Evict, EvictionKind, Reason
from cotenant.core.policy import Policy
from cotenant.core.quota.bookings import BookingTerms
from cotenant.core.state.facts import BookingGone, BookingObserved
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

POLICY = Policy(protected_runtime_s=10)
QUEUES = [make_queue("red", guaranteed=1), make_queue("blue", guaranteed=2), make_queue("free", limit=4)]
DEMO = BookingTerms(name="demo", queue="red", gpu_class="H100", gpus=2, starts_at=100.0, ends_at=200.0)


def cluster(*jobs: Job, now: float = 0.0, gpus: int = 4, booking: BookingTerms = DEMO) -> ToyCluster:
    toy = ToyCluster([make_node("n1", gpus=gpus)], QUEUES, policy=POLICY)
    toy.now = now
    toy.state.observe(BookingObserved(booking))
    for job in jobs:
        toy.observe(job)
    return toy


def running(toy: ToyCluster) -> list[str]:
    return sorted(key for key, job in toy.jobs.items() if job.placement and not job.evicting)


FILLERS = [make_job("a", queue="blue"), make_job("b", queue="blue")]


@pytest.mark.parametrize(
    ("changes", "now", "starts"),
    [
        ({"queue": "blue"}, 0.0, False),
        ({"queue": "blue", "max_runtime_s": 99}, 0.0, True),
        ({"queue": "blue", "max_runtime_s": 100}, 0.0, False),
        ({"queue": "blue", "expected_runtime_s": 10}, 0.0, False),
        ({"queue": "free"}, 0.0, True),
        ({"queue": "free"}, 89.0, True),
        ({"queue": "free"}, 90.0, False),
        ({"queue": "free", "preemptible": False}, 0.0, False),
        ({"queue": "red"}, 0.0, False),
        ({"queue": "red", "max_runtime_s": 60}, 0.0, True),
        ({"queue": "red"}, 100.0, True),
        ({"queue": "blue"}, 100.0, False),
        ({"queue": "free"}, 100.0, True),
        ({"queue": "blue"}, 199.0, True),
    ],
    ids=[
        "who may stay inside a guarantee",
        "who is sure to end",
        "who is sure to end too late",
        "who only hopes to end",
        "who may be evicted for it",
        "and is not protected any more by then",
        "and would be",
        "who cannot be evicted",
        "its own queue before it starts",
        "its own queue, sure to end",
        "its own queue when it has started",
        "another queue when it has started",
        "who may be evicted when it has started",
        "anybody when it is over",
    ],
)
def test_before_a_booking_starts_only_jobs_that_will_be_gone_may_use_its_gpus(
    changes: dict[str, Any], now: float, starts: bool
) -> None:
    toy = cluster(*FILLERS, make_job("asks", at=1.0, **changes), now=now)
    toy.cycle()
    assert ([key for key in running(toy) if "asks" in key] != []) is starts


def test_a_booking_in_one_zone_keeps_gpus_there_alone() -> None:
    toy = ToyCluster([make_node("east", zone="east"), make_node("west", zone="west")], QUEUES, policy=POLICY)
    toy.state.observe(BookingObserved(replace(DEMO, zone="west")))
    toy.observe(make_job("fills", queue="blue", gpus=2))
    toy.settle()

    assert running(toy) == ["blue/fills"]
    assert [node for node, _ in toy.cycle().booked["demo"].kept] == ["west", "west"]


@pytest.mark.parametrize(
    ("top", "starts"),
    [
        pytest.param(make_queue("top", guaranteed=2), True, id="a queue with a guarantee reclaims"),
        pytest.param(make_queue("top"), False, id="a queue that only groups reclaims nothing"),
    ],
)
def test_a_job_may_use_booked_gpus_if_the_queue_above_the_booking_can_reclaim_them(
    top: TenantQueue, starts: bool
) -> None:
    queues = [top, make_queue("red", guaranteed=1, parent="top"), make_queue("free", limit=4)]
    toy = ToyCluster([make_node("n1")], queues, policy=POLICY)
    toy.state.observe(BookingObserved(DEMO))
    toy.observe(make_job("asks", queue="free"))
    toy.cycle()

    assert (running(toy) == ["free/asks"]) is starts


def test_when_a_booking_starts_its_queue_gets_all_of_it_from_jobs_that_may_be_evicted() -> None:
    toy = cluster(*FILLERS, make_job("lent", queue="free", workers=2))
    toy.settle()
    assert running(toy) == ["blue/a", "blue/b", "free/lent"]
    toy.now = 99.0
    toy.observe(make_job("gang", gpus=2, at=99.0))
    toy.settle()
    assert running(toy) == ["blue/a", "blue/b", "red/gang"]
    assert [one.kind for one in toy.history if isinstance(one, Evict)] == [EvictionKind.RECLAIMED]


def test_the_message_behind_a_booking_names_it_and_its_end_and_what_would_help() -> None:
    verdict = cluster(*FILLERS, make_job("asks", queue="blue", at=1.0)).cycle().verdicts["blue/asks"]
    assert verdict.reason is Reason.GPUS_BOOKED
    span = f"from {format_instant(100.0)} until {format_instant(200.0)}"
    assert f"on GPUs that are booked: 2 GPUs of class H100 for queue red {span} (booking demo)." in verdict.message
    assert dict(verdict.evidence)["bookings"] == "demo"
    assert (verdict.would_start_if, verdict.change) == (
        "it were sure to end within 1m30s (maxRuntime)",
        (("spec.maxRuntime", '"1m30s"'),),
    )


def test_a_booking_keeps_the_same_gpus_until_it_ends_or_is_withdrawn() -> None:
    toy = cluster()
    first = toy.cycle().booked["demo"].kept
    toy.observe(make_job("a", queue="blue"))
    assert toy.cycle().booked["demo"].kept == first
    assert len(first) == 2
    toy.state.observe(BookingGone("demo"))
    assert toy.cycle().booked == {}
    toy.state.observe(BookingObserved(DEMO))
    toy.now = 200.0
    assert toy.cycle().booked == {}


def test_gpus_that_the_queue_of_a_booking_holds_are_not_kept_again() -> None:
    toy = cluster(make_job("one"), now=100.0)
    toy.cycle()
    found = toy.cycle().booked["demo"]
    assert (len(found.kept), found.used) == (1, 1000)


def test_gpus_of_jobs_that_may_stay_are_not_kept_for_a_booking() -> None:
    toy = cluster()
    toy.state.observe(BookingGone("demo"))
    toy.observe(make_job("stays", queue="blue", gpus=2))
    toy.observe(make_job("borrows", queue="blue", gpus=1))
    toy.settle()
    toy.state.observe(BookingObserved(DEMO))
    assert len(toy.cycle().booked["demo"].kept) == 1


ASKED = st.fixed_dictionaries(
    {"queue": st.sampled_from(["red", "blue", "free"]), "workers": st.integers(1, 2), "priority": st.integers(0, 1)},
    optional={"max_runtime_s": st.integers(1, 150), "preemptible": st.just(value=False), "milli": st.just(500)},
)


@settings(max_examples=25)
@given(
    stream=st.lists(st.tuples(st.integers(0, 9), ASKED), max_size=8),
    gpus=st.integers(1, 4),
    protected_s=st.integers(0, 30),
)
def test_booked_gpus_are_there_when_the_booking_starts_whatever_comes_before(
    stream: list[tuple[int, dict[str, Any]]], gpus: int, protected_s: int
) -> None:
    booking = BookingTerms(name="demo", queue="red", gpu_class="H100", gpus=gpus, starts_at=60.0, ends_at=200.0)
    toy = cluster(booking=booking)
    toy.policy = Policy(protected_runtime_s=protected_s)
    for number, (pause, asked) in enumerate(stream):
        toy.now = min(57.0, toy.now + pause)
        end_those_over(toy, toy.now)
        toy.observe(make_job(f"job{number}", at=toy.now, **asked))
        toy.cycle()
        toy.finish_evictions()
        assert toy.snapshot().accounting.ledger.sound()  # type: ignore[union-attr]
    toy.now = 59.0
    end_those_over(toy, 60.0)
    for key in [key for key, job in toy.jobs.items() if job.queue == "red"]:
        toy.end(key)
    granted = toy.snapshot().bookings[0].gpus
    for number in range(granted):
        toy.observe(make_job(f"wants{number}", at=toy.now))
    toy.settle()
    assert len([key for key in running(toy) if "wants" in key]) == granted


def end_those_over(toy: ToyCluster, now: float) -> None:
    for key, job in list(toy.jobs.items()):
        if job.admitted_at is not None and job.max_runtime_s and job.admitted_at + job.max_runtime_s <= now:
            toy.end(key)
