"""Ends of all holders at once: what the rules say of each by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from types import MappingProxyType

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core import Policy
from cotenant.core.actions.counted_ends import Holders, holders_of
from cotenant.core.actions.eviction_rules import EvictionRules
from cotenant.core.actions.holders import HolderTable
from cotenant.core.actions.tenure import Tenures
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.runtimes.learned import LearnedRuntimes
from cotenant.core.snapshot.accounting import Accounting
from cotenant.testing import make_job, make_node, make_placement, make_queue

NOW = 10_000.0
QUEUES = (
    (make_queue("red", guaranteed=2), make_queue("blue", guaranteed=0)),
    (make_queue("red", guaranteed=2, protected_runtime_s=900), make_queue("blue", guaranteed=1)),
    (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=1)),
    (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=0)),
)
RUNS = {
    "queue|red": (300,) * 9 + (700,) * 9 + (5_000,),
    "queue|blue": tuple(range(100, 4_000, 150)),
    "queue|gone": (500,) * 10,
}


@st.composite
def holders(draw: st.DrawFn) -> list[Job]:
    """Up to eight on a GPU each, of two queues and one that is gone."""
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
    learns: bool = True,
    now: float = NOW,
    runs: Mapping[str, tuple[int, ...]] = MappingProxyType(RUNS),
) -> tuple[Tenures, Request, RunningJobs]:
    counted = Accounting.of([make_node("n1", gpus=8)], queues, [*jobs, make_job("gang", gpus=2)])
    running = RunningJobs(counted.running, counted.allocations, counted.tree)
    request = RequestResolver(counted.inventory, counted.tree).resolve(make_job("gang", gpus=2))
    assert isinstance(request, Request)
    rules = EvictionRules(counted.tree, policy, Moment(now))
    return Tenures(rules, LearnedRuntimes(runs if learns else {})), request, running


def counted(tenures: Tenures, request: Request, running: RunningJobs) -> Holders:
    table = HolderTable.among(running)
    return holders_of(request, tenures, table, np.arange(len(table.keys)))


POLICIES = st.builds(
    Policy,
    collect_after_s=st.just(1_000),
    protected_runtime_s=st.sampled_from((0, 100)),
    tenure_s=st.sampled_from((0, 0, 2_000)),
)


@given(holders(), st.sampled_from(QUEUES), POLICIES, st.booleans())
def test_all_at_once_are_counted_as_each_by_itself(
    jobs: list[Job], queues: Sequence[TenantQueue], policy: Policy, learns: bool
) -> None:
    """But for who is over its time, which is looked at again a little later."""
    tenures, request, running = world(jobs, queues, policy, learns=learns)
    found = counted(tenures, request, running)
    alone, _, _ = world(jobs, queues, policy, learns=learns)
    ends = [alone.counted_until(request, job) for job in found.table.jobs]

    assert [end for end in found.ends.tolist() if end > NOW] == found.ends.tolist()
    assert [end for end, at in zip(found.ends.tolist(), ends, strict=True) if at > NOW] == [
        at for at in ends if at > NOW
    ]
    assert found.certain.tolist() == [alone.is_certain(request, job) for job in found.table.jobs]


@given(holders(), st.sampled_from(QUEUES), POLICIES, st.booleans(), st.integers(1, 8_000))
def test_what_is_counted_stays_the_same_for_as_long_as_the_moment_says(
    jobs: list[Job], queues: Sequence[TenantQueue], policy: Policy, learns: bool, later_s: int
) -> None:
    tenures, request, running = world(jobs, queues, policy, learns=learns)
    found = counted(tenures, request, running)
    at = min(NOW + later_s / 2, tenures.moment.until - 0.25)
    later, _, _ = world(jobs, queues, policy, learns=learns, now=at)

    if at >= NOW:
        assert counted(later, request, running).ends.tolist() == found.ends.tolist()


def test_who_is_over_its_time_is_looked_at_more_seldom_the_longer_it_is() -> None:
    jobs = [
        replace(
            make_job(f"j{column}", max_runtime_s=100, placement=make_placement(("n1", [[column]]))),
            admitted_at=NOW - 100 - over_s,
        )
        for column, over_s in enumerate((0.0, 1_000.0, 2_000.0, 9_000.0))
    ]
    tenures, request, running = world(jobs, QUEUES[0], Policy(protected_runtime_s=0), learns=False)

    assert counted(tenures, request, running).ends.tolist() == [10_020.0, 10_020.0, 10_080.0, 10_080.0]
    assert tenures.moment.until == 10_020.0


def test_who_starts_now_is_counted_from_now_on_and_the_decision_holds_for_this_moment() -> None:
    busy = make_job("b", placement=make_placement(("n1", [[0]])), max_runtime_s=9_000)
    tenures, request, running = world([replace(busy, admitted_at=9_000.0)], QUEUES[0], Policy(), learns=False)
    table = HolderTable.among(running)
    starts = make_job("a", max_runtime_s=700, placement=make_placement(("n1", [[1]])))
    found = holders_of(request, tenures, table, np.array([0]), [(starts, running.allocations["red/b"])])

    assert (found.table.keys, found.ends.tolist()) == (["red/a", "red/b"], [10_700.0, 18_000.0])
    assert tenures.moment.until == NOW


def test_a_job_without_an_end_has_none() -> None:
    busy = replace(make_job("b", placement=make_placement(("n1", [[0]]))), admitted_at=0.0)
    tenures, request, running = world([busy], QUEUES[0], Policy(), learns=False)

    assert counted(tenures, request, running).ends.tolist() == [inf]


def test_who_has_outlived_what_was_learned_goes_on_as_those_who_ran_for_longer_if_they_are_enough() -> None:
    """Nine of ten end in time. Of red five ran for longer, of blue six; whoever has outlived some of those has no end,
    and a tenure ends everybody."""
    runs = {
        "queue|red": (300,) * 95 + (3_000, 3_500, 4_000, 4_500, 5_000),
        "queue|blue": (300,) * 95 + (2_000, 2_500, 3_000, 3_500, 4_000, 6_000),
    }
    ran = {"a": ("red", 299), "b": ("red", 300), "c": ("red", 2_999), "d": ("red", 3_000), "e": ("blue", 1_000),
           "f": ("blue", 2_100), "g": ("blue", 2_500)}  # fmt: skip
    jobs = [
        make_job(name, queue=queue, placement=make_placement(("n1", [[column]])), admitted_at=NOW - ran_s)
        for column, (name, (queue, ran_s)) in enumerate(ran.items())
    ]
    tenures, request, running = world(jobs, QUEUES[2], Policy(), runs=runs)
    found = counted(tenures, request, running)
    ends = {key.partition("/")[2]: at - NOW for key, at in zip(found.table.keys, found.ends.tolist(), strict=True)}

    assert ends == {
        "a": 1, "b": 4_700, "c": 2_001, "d": inf, "e": 5_000, "f": 3_900, "g": inf,
    }  # fmt: skip
    assert tenures.moment.until == NOW + 1

    alone = [job for job in jobs if job.key in ("red/b", "red/c", "blue/f")]
    tenures, request, running = world(alone, QUEUES[2], Policy(), runs=runs)
    counted(tenures, request, running)
    assert tenures.moment.until == NOW + 1

    tenures, request, running = world(alone[:1], QUEUES[2], Policy(), runs=runs)
    counted(tenures, request, running)
    assert tenures.moment.until == NOW + 2_700


def test_who_may_be_asked_to_leave_at_this_very_moment_is_over_its_time_and_no_other_run_is_looked_at() -> None:
    runs = {"queue|blue": (300,) * 95 + (3_000, 3_500, 4_000, 4_500, 5_000)}
    lent = make_job("lent", queue="blue", placement=make_placement(("n1", [[0]])), admitted_at=NOW - 400)
    policy = Policy(protected_runtime_s=400)
    tenures, request, running = world([lent], QUEUES[0], policy, runs=runs)

    assert counted(tenures, request, running).ends.tolist() == [10_020.0]
    assert tenures.moment.until == 10_020.0
