"""Turns of overdue jobs, and the latest starts of all waiting jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import Admit
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import decide, schedule
from cotenant.core.scheduling.start_bounds import UNKNOWN
from cotenant.core.snapshot.snapshot import Snapshot
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

NOW = 10_000.0
POLICY = Policy(collect_after_s=5_000)
RED, BLUE = make_queue("red", guaranteed=4), make_queue("blue", guaranteed=0)


def cluster(*jobs: Job, gpus: int = 2, queues: tuple[TenantQueue, ...] = (RED, BLUE)) -> Snapshot:
    return make_snapshot(nodes=[make_node("n1", gpus=gpus)], queues=list(queues), jobs=list(jobs), now=NOW)


def admitted(snapshot: Snapshot, policy: Policy = POLICY) -> list[str]:
    return [action.job for action in schedule(snapshot, policy).actions if isinstance(action, Admit)]


def busy(*columns: int, **changes: Any) -> Job:
    place = make_placement(("n1", [list(columns)]))
    return make_job("busy", gpus=len(columns), placement=place, admitted_at=9_000.0, **changes)


def test_equal_jobs_become_overdue_each_by_its_own_wait() -> None:
    jobs = [make_job("first", at=1.0), make_job("second", at=2.0, cpu_milli=1), make_job("third", at=3.0)]

    assert admitted(cluster(*jobs)) == ["red/first", "red/second"]


def test_overdue_jobs_go_before_jobs_of_higher_priority_and_the_longest_wait_goes_first() -> None:
    jobs = [
        make_job("old", at=100.0),
        make_job("older", at=50.0),
        make_job("high", at=60.0, priority=5),
        make_job("fresh", at=9_000.0, priority=9),
    ]

    assert admitted(cluster(*jobs, gpus=1)) == ["red/older"]
    assert admitted(cluster(*jobs, gpus=2)) == ["red/high", "red/older"]
    assert admitted(cluster(*jobs, gpus=2), replace(POLICY, collect_after_s=0)) == ["red/fresh", "red/high"]


def test_an_overdue_job_that_has_to_borrow_goes_behind_guarantees_and_before_other_borrowers() -> None:
    """Two GPUs are left when a job inside its guarantee has started: the one that waits too long gets them."""
    queues = (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=1), make_queue("green", guaranteed=1))
    jobs = [
        make_job("wide", gpus=2, at=1.0),
        make_job("rightful", queue="blue", at=9_000.0),
        make_job("borrows", queue="green", gpus=2, at=9_000.0, priority=9),
    ]

    assert admitted(cluster(*jobs, gpus=3, queues=queues)) == ["blue/rightful", "red/wide"]


def test_a_decision_with_a_reservation_for_a_borrower_is_not_reused_when_shares_change() -> None:
    """Turns after it depend on them."""
    queues = (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=1))
    waits = make_job("wide", gpus=2, at=1.0)
    decision = decide(cluster(busy(0, max_runtime_s=2_000), waits, queues=queues), POLICY)

    assert (decision.plan.actions, decision.standings) == ((), None)


HAS_TO_BORROW = (
    "There is no latest start, because the job has to borrow: it asks for 2 GPU, which the guarantee of its queue does"
    " not cover, and other queues may claim theirs. A guarantee of 2 GPU would give one."
)
ENDS = busy(0, 1, max_runtime_s=2_000)
YOUNG = make_job("young", gpus=2, at=9_900.0, max_runtime_s=1_000)


@pytest.mark.parametrize(
    ("jobs", "queues", "policy", "want"),
    [
        pytest.param([ENDS, YOUNG], (RED, BLUE), POLICY, (16_900.0, ""), id="patience, then the longest hold"),
        pytest.param([ENDS, YOUNG], (RED, BLUE), replace(POLICY, collect_after_s=0), (None, ""), id="none is wanted"),
        pytest.param([busy(0, 1), YOUNG], (RED, BLUE), POLICY, (None, UNKNOWN), id="who runs without end"),
        pytest.param(
            [ENDS, YOUNG, make_job("open", at=9_950.0)], (RED, BLUE), POLICY, (None, UNKNOWN), id="who may without end"
        ),
        pytest.param(
            [busy(0, 1), YOUNG, make_job("open", at=9_950.0)],
            (RED, BLUE),
            replace(POLICY, tenure_s=3_000),
            (17_900.0, ""),
            id="patience, then the tenure limit",
        ),
        pytest.param(
            [busy(0, 1, preemptible=False), YOUNG],
            (RED, BLUE),
            replace(POLICY, tenure_s=3_000),
            (None, UNKNOWN),
            id="who cannot be evicted and has no end",
        ),
        pytest.param(
            [ENDS, YOUNG],
            (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=1)),
            POLICY,
            (None, HAS_TO_BORROW),
            id="who has to borrow has none",
        ),
        pytest.param(
            [ENDS, YOUNG],
            (make_queue("red", guaranteed=1), BLUE),
            POLICY,
            (16_900.0, ""),
            id="unless nobody has a better claim",
        ),
        pytest.param(
            [ENDS, YOUNG, make_job("before", gpus=2, at=9_800.0, max_runtime_s=3_000)],
            (RED, BLUE),
            POLICY,
            (20_800.0, ""),
            id="behind who waits for longer",
        ),
    ],
)
def test_a_job_starts_by_its_latest_start(
    jobs: list[Job], queues: tuple[TenantQueue, ...], policy: Policy, want: tuple[float | None, str]
) -> None:
    verdict = schedule(cluster(*jobs, queues=queues), policy).verdicts["red/young"]

    assert (verdict.starts_by, verdict.starts_by_basis) == want


@pytest.mark.parametrize(("since", "first"), [(5_000.0, "red/late"), (5_001.0, "red/high")])
def test_a_job_goes_first_from_the_moment_it_becomes_overdue(since: float, first: str) -> None:
    jobs = [make_job("late", at=since), make_job("high", at=9_000.0, priority=5)]

    assert admitted(cluster(*jobs, gpus=1)) == [first]


def test_a_job_that_has_to_borrow_takes_nothing_from_a_job_inside_its_guarantee() -> None:
    queues = (make_queue("red", guaranteed=0), make_queue("blue", guaranteed=1))
    jobs = [make_job("wide", gpus=2, at=1.0), make_job("rightful", queue="blue", at=9_000.0)]

    assert admitted(cluster(*jobs, gpus=2, queues=queues)) == ["blue/rightful"]
    assert admitted(cluster(jobs[0], gpus=2, queues=queues)) == ["red/wide"]


def test_no_gpus_are_reserved_for_a_job_that_is_unlikely_to_run() -> None:
    """Its last attempts never ran. A free GPU goes to others, until its time has come."""
    wide = make_job("wrong-image", gpus=2, at=1.0, evicts_from=NOW + 60.0)
    snapshot = cluster(busy(0), wide, make_job("fresh", at=9_999.0))
    assert admitted(snapshot) == ["red/fresh"]
    assert not admitted(replace(snapshot, now=NOW + 60.0))


def test_the_latest_start_of_a_job_counts_from_when_others_are_evicted_for_it_again() -> None:
    job = make_job("wrong-image", gpus=2, at=1.0, evicts_from=NOW + 60.0, max_runtime_s=9)
    (verdict,) = schedule(cluster(busy(0, max_runtime_s=4_000), job), POLICY).verdicts.values()
    assert verdict.starts_by == NOW + 60.0 + 4_000
