"""Candidates for eviction: their order, and which jobs are protected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.actions.victims import CandidateFinder, not_yet_leaving, surplus_stretches
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.eviction_candidate import CandidateList, EvictionCandidate
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.eviction_rules import EvictionRules
from cotenant.core.cycle.outcome import CycleOutcome
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, TenantQueue, TimeOrder
from cotenant.core.model.plan import Evict, EvictionKind
from cotenant.core.policy import Policy
from cotenant.core.queueing.service import ServiceOrder
from cotenant.core.quota.usage import Charge
from cotenant.core.runtimes.learned import NOTHING_LEARNED
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.accounting import Accounting
from tests.support.clusters import (
    UNPROTECTED,
    ToyCluster,
    make_job,
    make_node,
    make_placement,
    make_queue,
    make_snapshot,
)


def running(name: str, column: int | list[list[int]], *, at: float = 0.0, node: str = "n1", **changes: object) -> Job:
    workers = [[column]] if isinstance(column, int) else column
    job = make_job(name, placement=make_placement((node, workers)), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=at, workers_min=changes.get("workers_min", job.workers_min))  # type: ignore[arg-type]


def test_a_job_of_equal_priority_preempts_nothing() -> None:
    jobs = [running("old", 0), make_job("new", at=5)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=1)], queues=[make_queue("red", guaranteed=1)], jobs=jobs))

    assert plan.actions == ()


def test_the_least_lost_work_leaves_first() -> None:
    nodes, queues = [make_node("n1", gpus=2)], [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=2)]
    jobs = [
        replace(running("saved-long-ago", 0, at=1), last_checkpoint_at=10.0),
        replace(running("saved-just-now", 1, at=0), last_checkpoint_at=990.0),
        make_job("owner", queue="blue", at=50),
    ]

    plan = schedule(make_snapshot(nodes=nodes, queues=queues, jobs=jobs))

    assert [(action.job, action.kind) for action in plan.actions if isinstance(action, Evict)] == [
        ("red/saved-just-now", EvictionKind.RECLAIMED)
    ]
    assert plan.actions[0].message == (  # type: ignore[union-attr]
        "Queue red had borrowed these 1 GPU; queue blue needs them back for blue/owner."
    )


@pytest.mark.parametrize(("idle", "victim"), [(False, "red/saved"), (True, "red/idle")])
def test_a_job_that_holds_gpus_and_computes_nothing_leaves_first(idle: bool, victim: str) -> None:
    nodes, queues = [make_node("n1", gpus=3)], [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=3)]
    jobs = [
        replace(running("idle", [[0], [1]], at=1), idle=idle),
        replace(running("saved", 2, at=0), last_checkpoint_at=999.0),
        make_job("owner", queue="blue", at=50),
    ]

    plan = schedule(make_snapshot(nodes=nodes, queues=queues, jobs=jobs))

    assert [action.job for action in plan.actions if isinstance(action, Evict)] == [victim]


@pytest.mark.parametrize(
    ("changes", "guaranteed"),
    [
        pytest.param({}, 1, id="inside its guarantee"),
        pytest.param({"preemptible": False}, 0, id="not to be evicted"),
    ],
)
def test_an_idle_job_that_no_rule_lets_leave_stays(changes: dict[str, bool], guaranteed: int) -> None:
    nodes = [make_node("n1", gpus=1)]
    queues = [make_queue("red", guaranteed=guaranteed), make_queue("blue", guaranteed=1 - guaranteed)]
    jobs = [replace(running("idle", 0, at=1), idle=True, **changes), make_job("owner", queue="blue", at=50)]  # type: ignore[arg-type]

    assert schedule(make_snapshot(nodes=nodes, queues=queues, jobs=jobs)).actions == ()


def test_a_job_is_not_evicted_during_its_protected_time() -> None:
    nodes, jobs = [make_node("n1", gpus=1)], [running("young", 0, at=950.0), make_job("vip", priority=1)]
    queues = [replace(make_queue("red", guaranteed=1), protected_runtime_s=100)]

    assert schedule(make_snapshot(nodes=nodes, queues=queues, jobs=jobs), UNPROTECTED).actions == ()
    assert schedule(make_snapshot(nodes=nodes, queues=queues, jobs=jobs, now=1_050.0), UNPROTECTED).actions != ()
    assert (
        schedule(
            make_snapshot(nodes=nodes, queues=queues, jobs=jobs, now=1_050.0), Policy(protected_runtime_s=500)
        ).actions
        == ()
    )


@pytest.mark.parametrize(
    ("changes", "leaves"),
    [
        pytest.param({"priority": 1, "priority_class": "urgent"}, ["red/young"], id="for a PriorityClass"),
        pytest.param({"priority": 0, "priority_class": "urgent"}, [], id="not for one that is no higher"),
        pytest.param({"priority": 1}, [], id="not for a number"),
        pytest.param(
            {"priority": 1, "priority_class": "urgent", "queue": "green"}, [], id="not for a class in another queue"
        ),
    ],
)
def test_in_its_first_minutes_a_job_leaves_only_for(changes: dict[str, Any], leaves: list[str]) -> None:
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=1)]
    jobs = [running("young", 0, at=950.0), make_job("vip", **changes)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=1)], queues=queues, jobs=jobs))

    assert [action.job for action in plan.actions] == leaves


ELASTIC = make_job(
    "elastic", workers=(2, 4), placement=make_placement(("n1", [[0], [1], [2], [3]])), admitted_at=0.0, priority=0
)


def lists(
    jobs: list[Job],
    request: Job,
    queues: list[TenantQueue],
    *,
    now: float = 100.0,
    guarantee_waits: bool = False,
    above: int | None = None,
) -> CandidateList:
    """The candidates for a request."""
    counted = Accounting.of([make_node("n1", gpus=64)], queues, [*jobs, request])
    running, moment = RunningJobs(counted.running, counted.allocations, counted.tree), Moment(now)
    rules = EvictionRules(counted.tree, UNPROTECTED, moment)
    service = ServiceOrder(counted.tree, NOTHING_LEARNED, moment, 60)
    finder = CandidateFinder(running, counted.inventory, rules, service)
    resolved = RequestResolver(counted.inventory, counted.tree).resolve(request)
    assert isinstance(resolved, Request)
    return finder.candidates(resolved, counted.usage, guarantee_waits=guarantee_waits, above=above)


def listed(
    jobs: list[Job], request: Job, queues: list[TenantQueue], *, guarantee_waits: bool = False
) -> list[tuple[str, range | None, list[int], int]]:
    """(job, ranks, GPUs, lost work) of all candidates, surplus first."""
    found = lists(jobs, request, queues, guarantee_waits=guarantee_waits)
    return [
        (one.job.key, one.ranks, [column for node in one.allocation.nodes for column in node.columns], one.lost_work)
        for one in (*found.surplus, *found.jobs)
    ]


def test_surplus_workers_leave_one_by_one_from_the_last_rank_and_the_minimum_as_a_whole() -> None:
    """Each GPU has worked for 100 s and would lose a restart of 60 s besides."""
    candidates = listed([ELASTIC], make_job("high", priority=1), [make_queue("red", guaranteed=8)])

    assert candidates == [
        ("red/elastic", range(3, 4), [3], 160_000),
        ("red/elastic", range(2, 3), [2], 160_000),
        ("red/elastic", None, [0, 1], 320_000),
    ]


def test_surplus_yields_to_equal_priority_and_the_minimum_does_not() -> None:
    candidates = listed([ELASTIC], make_job("equal", at=50.0), [make_queue("red", guaranteed=8)])

    assert [ranks for _, ranks, _, _ in candidates] == [range(3, 4), range(2, 3)]


def test_another_queue_gives_back_gpus_that_its_guarantee_does_not_cover() -> None:
    queues = [make_queue("red", guaranteed=3), make_queue("blue", guaranteed=1)]
    covered = make_job("new", placement=make_placement(("n1", [[4]])), admitted_at=10.0)

    candidates = listed([ELASTIC, covered], make_job("owner", queue="blue"), queues)

    assert [(key, ranks) for key, ranks, _, _ in candidates] == [
        ("red/elastic", range(3, 4)),
        ("red/elastic", range(2, 3)),
    ]


def test_work_saved_by_a_checkpoint_is_not_lost() -> None:
    saved = replace(ELASTIC, workers_min=4, workers_max=4, last_checkpoint_at=90.0)

    ((_, _, _, lost_work),) = listed([saved], make_job("high", priority=1), [make_queue("red", guaranteed=8)])

    assert lost_work == 4_000 * (10 + 60)


def test_a_job_of_a_fixed_size_has_no_surplus_although_more_of_its_workers_run() -> None:
    fixed = replace(ELASTIC, workers_min=2, workers_max=2)

    candidates = listed([fixed], make_job("high", priority=1), [make_queue("red", guaranteed=8)])

    assert [candidate[:3] for candidate in candidates] == [("red/elastic", None, [0, 1, 2, 3])]


@pytest.mark.parametrize(
    ("guaranteed", "guarantee_waits", "preempts"),
    [
        pytest.param(8, False, True, id="inside its guarantee"),
        pytest.param(8, True, True, id="inside its guarantee, also while another one waits for its own"),
        pytest.param(0, False, True, id="outside it while all others have theirs"),
        pytest.param(0, True, False, id="but not while another one waits for its own"),
    ],
)
def test_a_request_preempts(guaranteed: int, guarantee_waits: bool, preempts: bool) -> None:
    low = running("low", 0)

    found = listed(
        [low], make_job("high", priority=1), [make_queue("red", guaranteed=guaranteed)], guarantee_waits=guarantee_waits
    )

    assert [key for key, _, _, _ in found] == (["red/low"] if preempts else [])


@pytest.mark.parametrize(
    ("least", "workers", "want"),
    [
        pytest.param(2, 2, [], id="no surplus"),
        pytest.param(1, 4, [range(3, 4), range(2, 3), range(1, 2)], id="one by one"),
        pytest.param(
            0, 20, [*(range(rank, rank + 1) for rank in range(19, 3, -1)), range(4)], id="what is left at once"
        ),
    ],
)
def test_surplus_leaves_worker_by_worker_and_a_large_surplus_in_stretches(
    least: int, workers: int, want: list[range]
) -> None:
    assert surplus_stretches(least, workers) == want


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_stretches_cover_the_surplus_exactly_and_are_few(least: int, surplus: int) -> None:
    found = surplus_stretches(least, least + surplus)

    assert [rank for stretch in reversed(found) for rank in stretch] == list(range(least, least + surplus))
    assert len(found) <= 16 + 10


def test_victims_by_service_come_last_and_the_highest_level_first() -> None:
    """One victim has had much GPU time, four have had less: the one leaves and the four stay."""
    hour = 3_600.0
    jobs = [make_job(f"small-{number}", at=0.0) for number in range(4)]
    toy = ToyCluster(
        [make_node("n1", gpus=8)],
        [make_queue("red", guaranteed=8, order=TimeOrder.LEAST_SERVICE)],
        [make_job("large", gpus=4, at=0.0), *jobs],
    )
    toy.cycle()
    toy.now += 20 * hour
    for job in list(toy.jobs.values()):
        toy.observe(replace(job, last_checkpoint_at=toy.now))
    toy.observe(make_job("new", at=toy.now - hour))
    assert [action.job for action in toy.cycle().actions] == ["red/large"]


RED = make_queue("red", guaranteed=8)


@pytest.mark.parametrize(
    ("priority", "in_time_until", "leaves"),
    [
        pytest.param(0, None, [EvictionKind.OVERRAN], id="of equal priority"),
        pytest.param(0, 150.0, [EvictionKind.OVERRAN], id="and no other than it"),
        pytest.param(1, None, [], id="not of a higher one"),
        pytest.param(-1, None, [EvictionKind.PREEMPTED], id="of a lower one as every other"),
    ],
)
def test_a_job_that_overran_its_promise_leaves_for_a_request(
    priority: int, in_time_until: float | None, leaves: list[EvictionKind]
) -> None:
    jobs = [
        replace(running("late", 0, priority=priority), backfilled_until=50.0),
        replace(running("in-time", 1), backfilled_until=in_time_until),
    ]

    found = lists(jobs, make_job("asks"), [RED])

    assert [(one.job.key, one.kind) for one in found.jobs] == [("red/late", kind) for kind in leaves]
    assert found.surplus == []


@pytest.mark.parametrize(
    ("above", "levels"),
    [
        pytest.param(0, {"red/low": 0, "red/much": 2}, id="who has had much"),
        pytest.param(2, {"red/low": 0}, id="nobody of a level that is no higher"),
        pytest.param(None, {"red/low": 0}, id="nobody for who has not waited for long"),
    ],
)
def test_the_job_of_equal_priority_that_yields(above: int | None, levels: dict[str, int]) -> None:
    """All of them save at this moment; one is of lower priority."""
    hour = 3_600.0
    attempts = {"much": 40, "little": 1, "low": 40}
    jobs = [
        replace(running(name, column, priority=-(name == "low")), admitted_at=(100 - hours) * hour)
        for column, (name, hours) in enumerate(attempts.items())
    ]
    jobs = [replace(job, submitted_at=job.admitted_at or 0.0, last_checkpoint_at=100 * hour) for job in jobs]
    queue = replace(RED, order=TimeOrder.LEAST_SERVICE)

    found = lists(jobs, make_job("asks"), [queue], now=100 * hour, above=above)

    assert {one.job.key: one.level for one in found.jobs} == levels


def eviction(key: str) -> Evict:
    return Evict(job=key, kind=EvictionKind.PREEMPTED, in_favour_of="red/high", message="")


def test_a_job_that_was_asked_to_leave_is_not_asked_again() -> None:
    """A stretch of ranks leaves as a whole."""
    allocation = Allocation((), Charge(0, "", ()))
    candidates = [
        EvictionCandidate(ELASTIC, allocation, EvictionKind.PREEMPTED, 0, ranks)
        for ranks in (range(3, 4), range(2, 3), range(1, 4), None)
    ]

    def left(outcome: CycleOutcome) -> list[range | None]:
        return [candidate.ranks for candidate in not_yet_leaving(candidates, outcome)]

    assert left(CycleOutcome()) == [range(3, 4), range(2, 3), range(1, 4), None]
    assert left(CycleOutcome(shrunk={"red/elastic": frozenset({3})})) == [range(2, 3), None]
    assert left(CycleOutcome(evictions={"red/elastic": eviction("red/elastic")})) == []
