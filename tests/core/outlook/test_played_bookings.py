"""Bookings in estimates: a job that yields to one starts after it, a job of the booking's queue when it begins."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cotenant.core.model.objects import Job, JobKey, TimeOrder
from cotenant.core.outlook.estimates import Outlook
from cotenant.core.outlook.play import Play
from cotenant.core.outlook.played_bookings import BookingCalendar
from cotenant.core.placement import BestFit
from cotenant.core.policy import Policy
from cotenant.core.quota.bookings import BookingTerms
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.facts import BookingObserved
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

POLICY = Policy(protected_runtime_s=10, placer=BestFit())
QUEUES = [make_queue("red", guaranteed=1), make_queue("blue", guaranteed=2), make_queue("free", limit=4)]
DEMO = BookingTerms(name="demo", queue="red", gpu_class="H100", gpus=2, starts_at=100.0, ends_at=200.0)
FILLERS = [make_job("a", queue="blue"), make_job("b", queue="blue")]


def world(*jobs: Job, now: float = 0.0, booking: BookingTerms = DEMO) -> tuple[ToyCluster, Snapshot]:
    toy = ToyCluster([make_node("n1", gpus=4)], QUEUES, policy=POLICY)
    toy.now = now
    toy.state.observe(BookingObserved(booking))
    for job in jobs:
        toy.observe(job)
    toy.settle()
    return toy, toy.snapshot()


def starts(snapshot: Snapshot, run_s: float = 1_000.0) -> dict[JobKey, float]:
    """A play in which every job runs for so long, or for its `maxRuntime`."""
    play = Play(snapshot, POLICY, lambda job, ran_s: float(job.max_runtime_s or run_s) - ran_s, iter(()))
    while play.step():
        pass
    return play.starts


@pytest.mark.parametrize(
    ("asks", "starts_at"),
    [
        (make_job("asks", queue="blue", at=1.0), 200.0),
        (make_job("asks", queue="red", gpus=2, at=1.0), 100.0),
        (make_job("asks", queue="blue", gpus=4, at=1.0), 1_001.0),
    ],
    ids=["who has to yield: when it is over", "its own queue: when it begins", "who needs more than it: later"],
)
def test_an_estimate_respects_bookings(asks: Job, starts_at: float) -> None:
    _, snapshot = world(*FILLERS, asks)
    assert starts(snapshot) == {asks.key: starts_at}


def test_a_job_whose_quota_a_booking_raises_starts_with_the_booking() -> None:
    queues = [make_queue("red", limit=1), make_queue("free", limit=4)]
    toy = ToyCluster([make_node("n1", gpus=4)], queues, policy=POLICY)
    toy.state.observe(BookingObserved(DEMO))
    toy.observe(make_job("gang", queue="red", gpus=2, at=1.0))
    toy.cycle()
    assert starts(toy.snapshot()) == {"red/gang": 100.0}


def test_in_a_play_a_borrower_of_booked_gpus_leaves_for_the_booking_and_starts_again_after_it() -> None:
    toy, snapshot = world(*FILLERS, make_job("lent", queue="free", workers=2))
    toy.now = 90.0
    toy.observe(make_job("gang", gpus=2, at=90.0))
    toy.cycle()
    snapshot = toy.snapshot()
    assert starts(snapshot) == {"red/gang": 100.0}


def test_estimates_of_the_whole_outlook_respect_a_booking() -> None:
    _, snapshot = world(*FILLERS, make_job("asks", queue="blue", at=1.0, max_runtime_s=500))
    outlook = Outlook(POLICY)
    outlook.observe(snapshot, {})
    while outlook.step():
        pass
    assert outlook.estimates()["blue/asks"].p50 == 200.0


def test_the_calendar_has_the_quotas_of_queues_from_each_change_on() -> None:
    _, snapshot = world()
    calendar, guaranteed = BookingCalendar(snapshot), {}
    while (at := calendar.next_change) is not None:
        queues, standings = calendar.turn()
        red = next(queue for queue in queues if queue.name == "red")
        guaranteed[at] = red.quotas[0].guaranteed, len(standings)
    assert guaranteed == {100.0: (2_000, 1), 200.0: (1_000, 0)}


@pytest.mark.parametrize("seed", range(12))
def test_a_future_played_with_bookings_and_known_run_times_comes_true(seed: int) -> None:
    """Nothing is lent, so no job is evicted."""
    dice = random.Random(seed)
    by_age = TimeOrder.AGE
    queues = [
        make_queue("red", guaranteed=2, limit=2, order=by_age),
        make_queue("blue", guaranteed=3, limit=3, order=by_age),
    ]
    toy = ToyCluster([make_node("n1", gpus=4), make_node("n2", gpus=4)], queues, policy=POLICY)
    for number in range(3):
        at = dice.randint(50, 900) + 0.5
        booking = BookingTerms(
            name=f"b{number}", queue=dice.choice(("red", "blue")), gpu_class="H100", gpus=dice.randint(1, 4),
            starts_at=at, ends_at=at + dice.randint(50, 600), since=float(number),
        )  # fmt: skip
        toy.state.observe(BookingObserved(booking))
    run_s: dict[JobKey, int] = {}
    for number in range(24):
        true = dice.randint(20, 300)
        queue, gpus = dice.choice(("red", "blue")), dice.choice((1, 1, 2))
        job = make_job(f"j{number:02}", queue=queue, gpus=gpus, at=number / 64)
        job = replace(job, max_runtime_s=true) if dice.random() < 0.5 else job
        run_s[job.key] = true
        toy.observe(job)
    toy.now = -1.0
    toy.cycle()
    snapshot = toy.snapshot()
    play = Play(snapshot, POLICY, lambda job, ran_s: run_s[job.key] - ran_s, iter(()))
    while play.step():
        pass
    happened = live(toy, run_s)
    assert play.starts == {key: happened[key] for key in play.starts}
    assert play.starts.keys() == {job.key for job in snapshot.jobs if job.placement is None}


def live(toy: ToyCluster, run_s: dict[JobKey, int]) -> dict[JobKey, float]:
    """When each job starts, by the real decisions at every ending and change of bookings."""
    begun: dict[JobKey, float] = {}
    left = set(toy.jobs)
    changes = sorted(
        at for one in toy.snapshot().bookings for at in (one.booking.starts_at, one.booking.ends_at)
    )  # fmt: skip
    while left:
        toy.now -= 1.0  # a cycle takes a second
        toy.cycle()
        for key in left:
            job = toy.jobs[key]
            if job.placement is not None and key not in begun:
                begun[key] = toy.now
        ends = [(begun[key] + run_s[key], key) for key in left if key in begun]
        coming = [at for at in changes if at > toy.now]
        toy.now = min([at for at, _ in ends] + coming)
        for at, key in ends:
            if at == toy.now:
                toy.end(key)
                left.remove(key)
    return begun
