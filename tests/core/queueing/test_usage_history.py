"""Past borrowing: who comes later for it, how it decays, and what an admission is charged."""

from __future__ import annotations

from cotenant.core import schedule
from cotenant.core.model.failover import BorrowingRecord
from cotenant.core.placement.shapes import Shape
from cotenant.core.queueing.usage_history import UsageHistory
from cotenant.core.snapshot.snapshot import DecayedBorrowing
from cotenant.core.state.facts import QueueGone, QueueObserved
from cotenant.testing import ToyCluster, make_job, make_node, make_queue


def remembered_of(toy: ToyCluster) -> dict[str, float]:
    return {past.queue: past.milli_seconds for past in toy.snapshot().usage_history}


def test_who_borrowed_long_goes_after_who_did_not_and_the_memory_fades() -> None:
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0)]
    toy = ToyCluster([make_node("n1", gpus=1)], queues, [make_job("long", queue="red", at=1)])
    toy.cycle()
    toy.now += 86_400.0
    toy.cycle()
    toy.end("red/long")
    remembered = remembered_of(toy)["red"]
    toy.observe(make_job("again", queue="red", at=2))
    toy.observe(make_job("first", queue="blue", at=3))
    toy.cycle()

    assert toy.jobs["blue/first"].placement is not None
    assert toy.jobs["red/again"].placement is None
    toy.now += 86_400.0
    faded = remembered_of(toy)["red"]
    assert 0.49 * remembered < faded < 0.51 * remembered


def two_trees_that_borrowed_alike(red_half_life_s: int | None) -> ToyCluster:
    """Red's teams and blue each borrow one GPU for ten hours; four hours later both ask for the only free one."""
    queues = [
        make_queue("red", guaranteed=0, half_life_s=red_half_life_s),
        make_queue("red-team", guaranteed=0, parent="red"),
        make_queue("blue", guaranteed=0),
    ]
    jobs = [make_job("long", queue="red-team"), make_job("long", queue="blue")]
    toy = ToyCluster([make_node("n1", gpus=2)], queues, jobs)
    toy.cycle()
    toy.now += 10 * 3_600.0
    toy.cycle()
    toy.end("red-team/long")
    toy.end("blue/long")
    toy.cycle()
    toy.now += 4 * 3_600.0
    toy.observe(make_job("first", queue="blue", gpus=2, at=1.0))
    toy.observe(make_job("second", queue="red-team", gpus=2, at=2.0))
    toy.cycle()
    return toy


def test_a_tree_that_forgets_sooner_is_ahead_sooner() -> None:
    same = two_trees_that_borrowed_alike(None)
    forgets = two_trees_that_borrowed_alike(3_600)

    assert [key for key, job in same.jobs.items() if job.placement] == ["blue/first"]
    assert [key for key, job in forgets.jobs.items() if job.placement] == ["red-team/second"]
    assert {past.queue: past.half_life_s for past in forgets.snapshot().usage_history} == {
        "blue": 86_400,
        "red": 3_600,
        "red-team": 3_600,
    }


def test_a_new_half_life_changes_the_pace_and_not_what_was_remembered() -> None:
    """The same average of GPUs is remembered: over a tenth of the time, a tenth of the GPU-seconds."""
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red", guaranteed=0)], [make_job("long")])
    toy.cycle()
    toy.now += 86_400.0
    before = remembered_of(toy)["red"]
    toy.state.observe(QueueObserved(make_queue("red", guaranteed=0, half_life_s=8_640)))

    after = remembered_of(toy)["red"]
    toy.end("red/long")
    toy.now += 8_640.0
    later = remembered_of(toy)["red"]

    assert round(after) == round(before / 10)
    assert round(later) == round(after / 2)


def test_an_admission_that_failed_leaves_no_penalty_behind() -> None:
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red", guaranteed=0)], [make_job("a")])
    plan = schedule(toy.snapshot())
    toy.state.assume(plan, toy.now)
    assert remembered_of(toy) == {"red": 60_000.0}

    toy.state.forget(plan.actions[0])

    assert toy.state.job("red/a") == toy.jobs["red/a"]
    assert sum(remembered_of(toy).values()) == 0.0


def test_what_a_queue_had_borrowed_goes_with_it() -> None:
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red", guaranteed=0)], [make_job("long")])
    toy.cycle()
    toy.now += 60.0
    assert set(remembered_of(toy)) == {"red"}

    toy.end("red/long")
    toy.state.observe(QueueGone("red"))
    toy.now += 60.0

    assert remembered_of(toy) == {}


def test_a_history_continues_from_what_another_one_had_come_to() -> None:
    """A day old at a half-life of a day; what was held since adds up at its rate."""
    history = UsageHistory(86_400.0)
    ended = [(make_job("pair", gpus=2), 86_400.0), (make_job("one", workers=3), 0.0), (make_job("more"), 86_400.0)]
    history.restore(
        [
            BorrowingRecord(queue="red", milli_seconds=8_000, rate_milli=0, at=0.0),
            BorrowingRecord(queue="blue", milli_seconds=8_000, rate_milli=1_000, at=86_400.0, half_life_s=60),
            BorrowingRecord(queue="future", milli_seconds=5, rate_milli=7, at=90_000.0),
        ],
        ended,
        86_400.0,
    )

    assert history.borrowing() == (
        DecayedBorrowing(queue="blue", milli_seconds=8_000.0, half_life_s=60),
        DecayedBorrowing(queue="future", milli_seconds=5.0, half_life_s=86_400.0),
        DecayedBorrowing(queue="red", milli_seconds=4_000.0, half_life_s=86_400.0),
    )
    assert history.demand() == ((Shape(count=1), 2.5), (Shape(count=2), 1.0))
