"""Past borrowing: which queues it sets back, how it decays, and what an admission is charged."""

from __future__ import annotations

import math

import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.failover import BorrowingRecord
from cotenant.core.model.measure import Amounts
from cotenant.core.queueing.usage_history import UsageHistory
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge, Usage
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import DecayedBorrowing
from cotenant.core.state.facts import QueueGone, QueueObserved
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue


def remembered_of(toy: ToyCluster) -> dict[str, float]:
    return {past.queue: past.milli_seconds for past in toy.snapshot().usage_history}


def test_a_queue_that_borrowed_long_goes_after_one_that_did_not_until_the_borrowing_has_decayed() -> None:
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0)]
    toy = ToyCluster([make_node("n1", gpus=1)], queues, [make_job("long", queue="red", at=1)])
    toy.cycle()
    toy.now += 86_400.0
    toy.cycle()
    toy.end("red/long")
    remembered = remembered_of(toy)["red"]
    toy.observe(make_job("again", queue="red", at=toy.now - 2))
    toy.observe(make_job("first", queue="blue", at=toy.now - 1))
    toy.cycle()

    assert toy.jobs["blue/first"].placement is not None
    assert toy.jobs["red/again"].placement is None
    toy.now += 86_400.0
    faded = remembered_of(toy)["red"]
    assert faded == pytest.approx(remembered * 0.5 ** (86_401 / 86_400), rel=1e-9)


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
    toy.observe(make_job("first", queue="blue", gpus=2, at=toy.now - 2))
    toy.observe(make_job("second", queue="red-team", gpus=2, at=toy.now - 1))
    toy.cycle()
    return toy


def test_a_tree_with_a_shorter_half_life_recovers_sooner() -> None:
    same = two_trees_that_borrowed_alike(None)
    forgets = two_trees_that_borrowed_alike(3_600)

    assert [key for key, job in same.jobs.items() if job.placement] == ["blue/first"]
    assert [key for key, job in forgets.jobs.items() if job.placement] == ["red-team/second"]
    assert {past.queue: past.half_life_s for past in forgets.snapshot().usage_history} == {
        "blue": 86_400,
        "red": 3_600,
        "red-team": 3_600,
    }


def test_a_new_half_life_changes_the_decay_and_not_the_remembered_amount() -> None:
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


def test_the_history_of_a_deleted_queue_is_deleted() -> None:
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red", guaranteed=0)], [make_job("long")])
    toy.cycle()
    toy.now += 60.0
    assert set(remembered_of(toy)) == {"red"}

    toy.end("red/long")
    toy.state.observe(QueueGone("red"))
    toy.now += 60.0

    assert remembered_of(toy) == {}


def test_a_history_continues_from_a_saved_one() -> None:
    """A day old at a half-life of a day; what was held since adds up at its rate."""
    history = UsageHistory(86_400.0)
    history.restore(
        [
            BorrowingRecord(queue="red", milli_seconds=8_000, rate_milli=0, at=0.0),
            BorrowingRecord(queue="blue", milli_seconds=8_000, rate_milli=1_000, at=86_400.0, half_life_s=60),
            BorrowingRecord(queue="future", milli_seconds=5, rate_milli=7, at=90_000.0),
        ],
        86_400.0,
    )

    assert history.borrowing() == (
        DecayedBorrowing(queue="blue", milli_seconds=8_000.0, half_life_s=60),
        DecayedBorrowing(queue="future", milli_seconds=5.0, half_life_s=86_400.0),
        DecayedBorrowing(queue="red", milli_seconds=4_000.0, half_life_s=86_400.0),
    )


def usage_of_red(milli: int) -> Usage:
    """A queue without a guarantee that holds so much: all of it is borrowed."""
    usage = Usage(QueueTree.of([make_queue("red", guaranteed=0)], Inventory.of([make_node("n1")])))
    usage.add(Charge(0, "", ((("H100", ""), Amounts(milli)),)))
    return usage


def held_in(history: UsageHistory) -> dict[str, float]:
    return {past.queue: past.milli_seconds for past in history.borrowing()}


def test_remembered_borrowing_decays_and_new_borrowing_is_added() -> None:
    """One GPU for a half-life of 100 s has come to 1000 · 100 / ln 2 / 2; a clock that goes back changes nothing."""
    history, once = UsageHistory(100.0), 1_000 * 100 / math.log(2) / 2
    seen = []
    for now, milli in ((0.0, 1_000), (100.0, 1_000), (200.0, 1_000), (150.0, 1_000), (250.0, 0)):
        history.advance(now, usage_of_red(milli))
        seen.append(held_in(history).get("red", 0.0))

    assert seen == pytest.approx([0.0, once, 1.5 * once, 1.5 * once, 0.75 * once])


def test_less_than_a_milli_gpu_for_a_second_is_forgotten() -> None:
    history = UsageHistory(100.0)
    history.restore([BorrowingRecord(queue="red", milli_seconds=2, rate_milli=0, at=0.0)], 0.0)
    history.advance(100.0, usage_of_red(0))
    assert held_in(history) == {"red": 1.0}

    history.advance(101.0, usage_of_red(0))

    assert held_in(history) == {}


@pytest.mark.parametrize(("after_s", "left"), [(0.0, 5_000.0), (100.0, 2_500.0 - 30_000.0)])
def test_a_penalty_is_refunded_as_charged_and_never_becomes_a_credit(after_s: float, left: float) -> None:
    history = UsageHistory(100.0)
    history.restore([BorrowingRecord(queue="red", milli_seconds=5_000, rate_milli=0, at=0.0)], 0.0)
    history.charge_penalty(make_job("a"), 1_000, usage_of_red(1_000))
    assert held_in(history) == {"red": 65_000.0}

    history.advance(after_s, usage_of_red(0))
    history.refund_penalty("red/a")

    assert sum(held_in(history).values()) == max(0.0, left)


def test_a_history_counts_what_was_held_while_there_was_no_leader() -> None:
    """One GPU held for a half-life of 100 s since the record was written, on top of the half of it that is left."""
    history = UsageHistory(100.0)
    history.restore([BorrowingRecord(queue="red", milli_seconds=5_000, rate_milli=1_000, at=0.0)], 100.0)

    assert held_in(history) == {"red": pytest.approx(2_500 + 1_000 * 100 / math.log(2) / 2)}
