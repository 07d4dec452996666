"""Assumed ends of all jobs that hold GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.actions.collect import Holders, holders_of
from cotenant.core.actions.tenure import Tenures
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.eviction_rules import EvictionRules
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.policy import Policy
from cotenant.core.snapshot.accounting import Accounting
from tests.support.clusters import make_job, make_node, make_placement, make_queue

NOW = 10_000.0
QUEUES = (
    (make_queue("red", guaranteed=2), make_queue("blue", guaranteed=0)),
    (make_queue("red", guaranteed=2, protected_runtime_s=900), make_queue("blue", guaranteed=1)),
    (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=1)),
    (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=0)),
)


@st.composite
def holders(draw: st.DrawFn) -> list[Job]:
    """Up to eight jobs on a GPU each, of two queues and of a deleted one."""
    return [
        replace(
            make_job(
                f"j{column}",
                queue=draw(st.sampled_from(("red", "blue", "gone"))),
                preemptible=draw(st.booleans()),
                at=draw(st.integers(0, 9)),
                max_runtime_s=draw(st.sampled_from((None, None, 60, 800, 20_000))),
                placement=make_placement(("n1", [[column]])),
                evicting=draw(st.integers(0, 5)) == 0,
            ),
            admitted_at=NOW - draw(st.sampled_from((0, 0.5, 99, 100, 300, 699.5, 700, 899, 900, 3_000, 8_000, 40_000))),
            backfilled_until=draw(st.sampled_from((None, None, NOW - 1, NOW, NOW + 1))),
        )
        for column in range(draw(st.integers(0, 8)))
    ]


def world(
    jobs: Sequence[Job],
    queues: Sequence[TenantQueue],
    policy: Policy,
    *,
    now: float = NOW,
) -> tuple[Tenures, Request, RunningJobs]:
    counted = Accounting.of([make_node("n1", gpus=8)], queues, [*jobs, make_job("gang", gpus=2)])
    running = RunningJobs(counted.running, counted.allocations, counted.tree)
    request = RequestResolver(counted.inventory, counted.tree).resolve(make_job("gang", gpus=2))
    assert isinstance(request, Request)
    rules = EvictionRules(counted.tree, policy, Moment(now))
    return Tenures(rules), request, running


def counted(tenures: Tenures, request: Request, running: RunningJobs) -> Holders:
    table = running.holders
    return holders_of(request, tenures, table, np.arange(len(table.keys)))


POLICIES = st.builds(
    Policy,
    collect_after_s=st.just(1_000),
    protected_runtime_s=st.sampled_from((0, 100)),
    tenure_s=st.sampled_from((0, 0, 2_000)),
)


@given(holders(), st.sampled_from(QUEUES), POLICIES, st.integers(1, 8_000))
def test_counted_ends_stay_the_same_until_the_moment_says(
    jobs: list[Job], queues: Sequence[TenantQueue], policy: Policy, later_s: int
) -> None:
    tenures, request, running = world(jobs, queues, policy)
    found = counted(tenures, request, running)
    at = min(NOW + later_s / 2, tenures.moment.until - 0.25)
    later, _, _ = world(jobs, queues, policy, now=at)

    if at >= NOW:
        assert counted(later, request, running).ends.tolist() == found.ends.tolist()


def test_the_longer_a_job_is_over_its_time_the_less_often_it_is_checked() -> None:
    jobs = [
        replace(
            make_job(f"j{column}", max_runtime_s=100, placement=make_placement(("n1", [[column]]))),
            admitted_at=NOW - 100 - over_s,
        )
        for column, over_s in enumerate((0.0, 1_000.0, 2_000.0, 9_000.0))
    ]
    tenures, request, running = world(jobs, QUEUES[0], Policy(protected_runtime_s=0))

    assert counted(tenures, request, running).ends.tolist() == [10_020.0, 10_020.0, 10_080.0, 10_080.0]
    assert tenures.moment.until == 10_020.0


def test_a_job_that_starts_now_is_counted_from_now_and_the_decision_holds_only_for_this_moment() -> None:
    busy = make_job("b", placement=make_placement(("n1", [[0]])), max_runtime_s=9_000)
    tenures, request, running = world([replace(busy, admitted_at=9_000.0)], QUEUES[0], Policy())
    table = running.holders
    starts = make_job("a", max_runtime_s=700, placement=make_placement(("n1", [[1]])))
    found = holders_of(request, tenures, table, np.array([0]), [(starts, running.allocations["red/b"])])

    assert (found.table.keys, found.ends.tolist()) == (["red/a", "red/b"], [10_700.0, 18_000.0])
    assert tenures.moment.until == NOW


def test_a_job_without_a_known_end_has_an_infinite_one() -> None:
    busy = replace(make_job("b", placement=make_placement(("n1", [[0]]))), admitted_at=0.0)
    tenures, request, running = world([busy], QUEUES[0], Policy())

    assert counted(tenures, request, running).ends.tolist() == [inf]
