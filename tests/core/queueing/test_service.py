"""Jobs with little GPU time go before jobs with much, and may have them evicted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import GpuRequest, Job, TimeOrder
from cotenant.core.model.plan import Evict
from cotenant.core.queueing.service import (
    LEAST_RUN_S,
    LEVELS,
    PATIENCE_S,
    STARVES_AFTER_S,
    WORTH,
    ServiceOrder,
    Turn,
    why_before,
)
from cotenant.core.quota.tree import QueueTree
from cotenant.core.runtimes.learned import NOTHING_LEARNED, LearnedRuntimes
from cotenant.core.runtimes.runtime_history import RuntimeHistory
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue

NOW = 1_000_000.0
HOUR = 3_600
PLACED = make_placement(("n1", [[0]]))


def service(
    order: TimeOrder, *, learned: LearnedRuntimes = NOTHING_LEARNED, restart_s: int = 60, moment: Moment | None = None
) -> ServiceOrder:
    queues = [make_queue("red", order=order), make_queue("team", parent="red"), make_queue("blue")]
    return ServiceOrder(
        QueueTree.of(queues, Inventory.of([make_node("n1", gpus=8)])), learned, moment or Moment(NOW), restart_s
    )


def waiting(name: str, *, ran_s: int = 0, waited_s: float = 0.0, queue: str = "red", gpus: int = 1, **more: Any) -> Job:
    return make_job(name, queue=queue, gpus=gpus, at=NOW - ran_s - waited_s, ran_s=ran_s, **more)


def running(name: str, attempt_s: float, *, saved_s: float | None = None, ran_s: int = 0, gpus: int = 1) -> Job:
    """`saved_s`: how long ago it saved; None: it never did."""
    saved_at = None if saved_s is None else NOW - saved_s
    job = waiting(name, ran_s=ran_s, waited_s=attempt_s, gpus=gpus)
    return replace(job, placement=PLACED, admitted_at=NOW - attempt_s, last_checkpoint_at=saved_at)


def order_of(turns: ServiceOrder, *jobs: Job) -> list[str]:
    return [job.key.partition("/")[2] for job in sorted(jobs, key=turns.turn)]


def test_in_the_order_by_age_the_gpu_time_a_job_had_does_not_count() -> None:
    old, new = waiting("old", ran_s=999 * HOUR), waiting("new", waited_s=60)
    assert order_of(service(TimeOrder.AGE), new, old) == ["old", "new"]


def test_in_the_order_by_service_priority_counts_before_level_and_level_before_age() -> None:
    much, little = waiting("much", ran_s=40 * HOUR, waited_s=HOUR), waiting("little", ran_s=2 * HOUR, waited_s=HOUR)
    older, urgent = waiting("older", waited_s=9 * HOUR), waiting("urgent", ran_s=300 * HOUR, priority=1)
    turns = service(TimeOrder.LEAST_SERVICE)
    assert order_of(turns, much, little, older, urgent) == ["urgent", "older", "little", "much"]


@pytest.mark.parametrize(
    ("ran_s", "gpus", "level"),
    [
        (0, 8, 0),
        (4 * HOUR - 1, 1, 0),
        (4 * HOUR, 1, 1),
        (HOUR, 4, 1),
        (4 * HOUR, 8, 2),
        (32 * HOUR, 8, 3),
        (999 * HOUR, 8, 3),
    ],
)
def test_the_level_counts_gpu_time_of_the_whole_gang(ran_s: int, gpus: int, level: int) -> None:
    assert service(TimeOrder.LEAST_SERVICE).level(waiting("job", ran_s=ran_s, gpus=gpus)) == level


def test_the_root_of_a_tree_sets_its_order() -> None:
    turns = service(TimeOrder.LEAST_SERVICE)
    job = waiting("job", ran_s=40 * HOUR)
    assert [turns.level(replace(job, queue=queue)) for queue in ("red", "team", "blue", "none")] == [2, 2, 0, 0]


def test_a_running_job_rises_while_it_runs_and_what_it_ran_before_counts() -> None:
    turns = service(TimeOrder.LEAST_SERVICE)
    assert [turns.level(running("job", attempt_s, ran_s=3 * HOUR)) for attempt_s in (0, HOUR, 29 * HOUR)] == [0, 1, 2]


def test_in_the_predicted_order_the_job_that_needs_least_gpu_time_goes_first_inside_a_level() -> None:
    history = RuntimeHistory()
    for number in range(9):
        history.record(waiting(f"short-{number}"), 60)
        history.record(waiting(f"long-{number}"), 9_000)
    turns = service(TimeOrder.PREDICTED, learned=history.learned())
    long, short = waiting("long-9", waited_s=50), waiting("short-9", waited_s=10)
    had_much = waiting("short-10", ran_s=5 * HOUR, waited_s=HOUR)
    assert order_of(turns, long, short, had_much) == ["short-9", "long-9", "short-10"]
    assert order_of(service(TimeOrder.LEAST_SERVICE, learned=history.learned()), long, short) == ["long-9", "short-9"]


def test_the_declared_run_time_counts_if_nothing_was_learned() -> None:
    turns = service(TimeOrder.PREDICTED)
    long, short = waiting("l", waited_s=50, expected_runtime_s=9_000), waiting("s", expected_runtime_s=60)
    assert order_of(turns, long, short) == ["s", "l"]


def test_the_time_a_requeued_job_ran_is_not_part_of_its_wait() -> None:
    job = waiting("job", ran_s=3 * HOUR, waited_s=PATIENCE_S - 1)
    turns = service(TimeOrder.LEAST_SERVICE)
    assert [turns.evicts_above(replace(job, submitted_at=job.submitted_at - more)) for more in (0, 1)] == [None, 0]


@pytest.mark.parametrize(
    ("job", "rest"),
    [
        pytest.param(waiting("job"), 600, id="nothing is known: ten minutes"),
        pytest.param(waiting("job", ran_s=599), 600, id="ten minutes at least"),
        pytest.param(waiting("job", ran_s=3_000), 3_000, id="as long again as it has run"),
        pytest.param(waiting("job", expected_runtime_s=9_000), 9_000, id="what it declares"),
        pytest.param(waiting("job", ran_s=3_000, expected_runtime_s=5_000), 2_000, id="what is left of that"),
        pytest.param(waiting("job", ran_s=5_000, expected_runtime_s=5_000), 5_000, id="it said more than was so"),
        pytest.param(waiting("job", expected_runtime_s=1), 1, id="a second"),
        pytest.param(waiting("job", expected_runtime_s=9_000, gpus=2), 18_000, id="of all GPUs"),
        pytest.param(waiting("job", expected_runtime_s=9_000, workers=3), 27_000, id="of all workers"),
        pytest.param(
            make_job("job", milli=100, at=NOW, expected_runtime_s=9_000), 900, id="of the share of memory"
        ),
        pytest.param(
            make_job("job", gpu=GpuRequest(compute_milli=500), at=NOW, expected_runtime_s=9_000), 4_500,
            id="of the share of compute",
        ),
    ],
)  # fmt: skip
def test_the_predicted_order_compares_remaining_gpu_seconds_in_powers_of_two(job: Job, rest: int) -> None:
    assert service(TimeOrder.PREDICTED).turn(job) == (0, 0, rest.bit_length(), job.submitted_at, job.key)
    assert service(TimeOrder.LEAST_SERVICE).turn(job) == (0, 0, 0, job.submitted_at, job.key)


def test_the_median_of_learned_run_times_counts() -> None:
    history = RuntimeHistory()
    for number in range(100):
        history.record(waiting(f"job-{number}"), 10 if number < 49 else 100 if number == 49 else 1_000)

    turn = service(TimeOrder.PREDICTED, learned=history.learned()).turn(waiting("job-100"))

    assert turn[2] == (100).bit_length()


@pytest.mark.parametrize(("waited_s", "above"), [(PATIENCE_S - 1, None), (PATIENCE_S, 0)])
def test_only_a_job_that_waited_for_long_evicts_by_service(waited_s: float, above: int | None) -> None:
    assert service(TimeOrder.LEAST_SERVICE).evicts_above(waiting("job", waited_s=waited_s)) == above
    assert service(TimeOrder.AGE).evicts_above(waiting("job", waited_s=waited_s)) is None


@pytest.mark.parametrize(
    ("job", "yields"),
    [
        (running("had-much", 9 * HOUR, saved_s=300), True),
        (running("just-started", LEAST_RUN_S - 1, saved_s=300, ran_s=99 * HOUR), False),
        (running("saves-nothing", 99 * HOUR), False),
        (running("saved-long-ago", 16 * HOUR, saved_s=2 * HOUR), False),
        (running("saved-lately", 16 * HOUR, saved_s=2 * HOUR - 60), True),
        (waiting("waits", ran_s=99 * HOUR), False),
    ],
)
def test_a_victim_by_service_has_had_more_gpu_time_and_has_run_long_and_loses_little(job: Job, yields: bool) -> None:
    turns = service(TimeOrder.LEAST_SERVICE)
    assert turns.may_yield(job, 0) is yields
    assert not turns.may_yield(job, len(LEVELS))


def test_the_answer_that_a_job_does_not_yield_holds_until_it_has_run_long_enough() -> None:
    moment = Moment(NOW)
    turns = service(TimeOrder.LEAST_SERVICE, moment=moment)
    assert not turns.may_yield(running("young", LEAST_RUN_S - 100, ran_s=99 * HOUR, saved_s=300), 0)
    assert moment.until == NOW + 100


def test_a_starving_job_goes_first_and_is_not_evicted() -> None:
    turns = service(TimeOrder.LEAST_SERVICE)
    patient = waiting("patient", ran_s=5 * HOUR, waited_s=STARVES_AFTER_S)
    starves = waiting("starves", ran_s=5 * HOUR, waited_s=STARVES_AFTER_S + 1)
    assert (turns.level(patient), turns.level(starves)) == (1, 0)


JOBS = st.builds(
    lambda attempt, saved, ran, gpus: running("job", attempt, saved_s=min(saved, attempt), ran_s=ran, gpus=gpus),
    st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 8),
)  # fmt: skip


@given(JOBS, JOBS)
def test_two_jobs_never_yield_to_each_other_and_a_loss_is_bounded(one: Job, other: Job) -> None:
    turns = service(TimeOrder.LEAST_SERVICE)
    assert not (turns.may_yield(one, turns.level(other)) and turns.may_yield(other, turns.level(one)))
    if turns.may_yield(one, 0):
        assert one.admitted_at is not None
        attempt_s = NOW - one.admitted_at
        assert WORTH * (NOW - max(one.admitted_at, one.last_checkpoint_at or 0) + 60) <= attempt_s
        assert attempt_s >= LEAST_RUN_S


@pytest.mark.parametrize(("order", "starts"), [(TimeOrder.AGE, False), (TimeOrder.LEAST_SERVICE, True)])
def test_a_short_job_does_not_wait_for_a_long_one_that_saves_checkpoints(order: TimeOrder, starts: bool) -> None:
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red", guaranteed=1, order=order)], [make_job("long")])
    toy.cycle()
    toy.now += 10 * HOUR
    toy.observe(replace(toy.jobs["red/long"], last_checkpoint_at=toy.now - 60))
    toy.observe(make_job("short", at=toy.now))
    assert toy.cycle().actions == ()
    toy.now += PATIENCE_S
    toy.observe(replace(toy.jobs["red/long"], last_checkpoint_at=toy.now - 60))
    found = [action for action in toy.cycle().actions if isinstance(action, Evict)]
    assert [action.job for action in found] == (["red/long"] if starts else [])
    assert all("has had less GPU time" in action.message for action in found)


FIRST: Turn = (-1, 1, 3, 7.0, "red/b")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        pytest.param((-2, 4, 9, 9.0, "red/z"), "it has a higher priority", id="priority goes before all"),
        pytest.param((-1, 0, 9, 9.0, "red/z"), "it has had less GPU time", id="then the level"),
        pytest.param((-1, 1, 2, 9.0, "red/z"), "it is expected to end sooner", id="then what is still to come"),
        pytest.param((-1, 1, 3, 6.0, "red/z"), "it is older", id="then age"),
        pytest.param((-1, 1, 3, 7.0, "red/a"), "it is older", id="of equal age the key"),
        pytest.param((-1, 1, 3, 7.0, "red/c"), "it fits into a gap", id="no rule, if its turn is later"),
        pytest.param((0, 0, 0, 0.0, "red/a"), "it fits into a gap", id="nor if only less weighty parts are lower"),
    ],
)
def test_the_rule_that_puts_a_job_before_another_is(other: Turn, why: str) -> None:
    assert why_before(other, FIRST) == why
