"""Scenarios of one cycle in a running cluster: after many changes, after few, after none."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from bench.parts.throughput.clusters import admitted, arrived, feed, nodes, snapshot_at, tree
from bench.parts.throughput.rows import Row, duration, rate, timed
from bench.parts.used_cluster import changed, different_jobs, pending_jobs, used_cluster
from cotenant.core.model.objects import Job, Node
from cotenant.core.model.plan import Admit, Evict, Resize
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.scheduling.scheduler import decide, schedule
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import JobObserved, NodeObserved
from tests.support.clusters import make_job


def running_cluster(dice: random.Random, scale: float) -> Row:
    """4,000 nodes, 140,000 running workers on quarter shares; one new job and one refusal; the second cycle counts."""
    names = [f"team-{index:02}" for index in range(20)]
    machines = nodes(int(4_000 * scale))
    queues = tree(names, 1_500)
    jobs = [
        make_job(f"s{index}", queue=dice.choice(names), at=float(index), milli=200, workers=4)
        for index in range(int(35_000 * scale))
    ]
    plan = schedule(arrived(machines, queues, jobs))
    placed = {action.job: action.placement for action in plan.actions if isinstance(action, Admit)}
    running = [replace(job, placement=placed[job.key], admitted_at=1.0) for job in jobs if job.key in placed]
    state = ClusterState()
    feed(state, machines, queues, running)
    state.assume(schedule(snapshot_at(state, 1e5)), 1e5)
    state.observe(JobObserved(make_job("new", queue=names[0], at=1e5, workers=2)))
    state.observe(JobObserved(make_job("share", queue=names[1], at=1e5, milli=200, workers=4)))
    spent, plan = timed(lambda: schedule(snapshot_at(state, 1e5 + 1)))
    workers = sum(job.workers_min for job in running)
    note = f"{workers} workers run, {admitted(plan)} of 2 start"
    return duration("one cycle over 4,000 nodes", 0.25, spent=spent, note=note)


def absurd_gangs(dice: random.Random, scale: float) -> Row:
    """150 elastic jobs hold shares of all GPUs, and another job takes some back. Compares the cycle if each asked for
    10,000 workers with the cycle if each asked for 500. Both are more than there is."""
    count = max(2, int(100 * scale))
    spent, gone = [], 0
    for asked in (500, 10_000):
        state = ClusterState()
        jobs = [
            make_job(f"e{index}", queue="team", at=float(index), milli=50, workers=(1, asked), distinct_gpus=False)
            for index in range(150)
        ]
        feed(state, nodes(count), [*tree(["team"], 0), *tree(["owner"], count)], jobs)
        state.assume(schedule(snapshot_at(state, 1e5)), 1e5)
        state.observe(JobObserved(make_job("back", queue="owner", at=1e5, workers=count)))
        cycle, plan = timed(lambda state=state: schedule(snapshot_at(state, 1e6)))  # type: ignore[misc]
        spent.append(cycle)
        gone = sum(1 for action in plan.actions if isinstance(action, Evict | Resize))
    ratio = spent[1].cpu / max(spent[0].cpu, 1e-9)
    note = f"{gone} shrink; {spent[0].cpu:.3f} s for 500"
    row = duration("150 elastic jobs ask for 10,000, against 500", 2.0, spent=spent[1], note=note)
    return replace(row, measured=ratio, unit="×", met=ratio <= 2.0)


def used_nodes(
    dice: random.Random, scale: float, jobs: int = 5_000, wanted: Callable[..., list[Job]] = pending_jobs, of: str = ""
) -> Row:
    """The first cycle after a start: all nodes differ, so each is judged by itself. 28 queues in three levels, 20
    shapes."""
    cluster = used_cluster(dice, int(5_000 * scale))
    asking = wanted(dice, cluster.leaves, int(jobs * scale))
    state = ClusterState()
    feed(state, cluster.nodes, cluster.queues, [*cluster.running, *asking])
    snapshot = snapshot_at(state, 1e6)
    spent, plan = timed(lambda: schedule(snapshot))
    note = f"{len(cluster.running)} run, {admitted(plan)} placed"
    name = f"{jobs:,} jobs{of}, 5,000 different nodes"
    return rate(name, len(asking), "decisions/s", 2_000, spent=spent, note=note)


def used_nodes_few(dice: random.Random, scale: float) -> Row:
    """Few jobs: most of the cost is judging all nodes once for each shape."""
    return used_nodes(dice, scale, jobs=500)


def used_nodes_shapes(dice: random.Random, scale: float) -> Row:
    """Every job has a shape of its own, so all nodes are judged for each job."""
    return used_nodes(dice, scale, jobs=500, wanted=different_jobs, of=" of as many shapes")


NOBODY = replace(DEFAULT, collect_after_s=10_000_000)
"""No job has waited so long that GPUs are reserved for it. Under the default policy all jobs have."""


def steady_state(dice: random.Random, scale: float, policy: Policy = NOBODY, of: str = "") -> Row:
    """The cycle after 1 % of the different nodes changed, when all jobs that fit have started. The second of two such
    cycles is timed: it uses what the first one worked out."""
    state, nodes_, _ = settled(dice, scale, policy)
    last = decide(snapshot_at(state, 1e6 + 3), policy)
    for minute in (1, 2):
        for place in dice.sample(range(len(nodes_)), max(1, len(nodes_) // 100)):
            nodes_[place] = changed(dice, nodes_[place])
            state.observe(NodeObserved(nodes_[place]))
        before = last
        spent, last = timed(lambda: decide(snapshot_at(state, 1e6 + 60 * minute), policy, before))  # noqa: B023
    note = f"{admitted(last.plan)} placed, {len(last.plan.verdicts)} wait"
    return duration(f"cycle, 1 % of 5,000 nodes changed{of}", 0.05, spent=spent, note=note)


def steady_overdue(dice: random.Random, scale: float) -> Row:
    """The same when the waiting jobs have waited for days."""
    return steady_state(dice, scale, DEFAULT, ", overdue")


def unchanged(dice: random.Random, scale: float, policy: Policy = NOBODY, of: str = "") -> Row:
    """A cycle each minute, from the last decision on, as in the operator: the median of them, and how many were decided
    anew because the decision depends on time."""
    state, _, jobs = settled(dice, scale, policy)
    last = decide(snapshot_at(state, 1e6 + 3), policy)
    every, anew = [], 0
    for minute in range(1, 16):
        before = last
        spent, last = timed(lambda: decide(snapshot_at(state, 1e6 + 60 * minute), policy, before))  # noqa: B023
        every.append(spent)
        anew += last.snapshot is not before.snapshot  # else kept, at most in other words
    note = f"{jobs} jobs, {len(last.plan.verdicts)} wait; decided anew in {anew} of {len(every)} minutes"
    median = sorted(every, key=lambda one: one.cpu)[len(every) // 2]
    return duration(f"cycle, nothing changed{of}", 0.005, spent=median, note=note)


def unchanged_overdue(dice: random.Random, scale: float) -> Row:
    return unchanged(dice, scale, DEFAULT, ", overdue")


def settled(dice: random.Random, scale: float, policy: Policy) -> tuple[ClusterState, list[Node], int]:
    """A cluster with more jobs than fit, after the cycles in which all that fit have started."""
    cluster = used_cluster(dice, int(5_000 * scale))
    jobs = [*cluster.running, *pending_jobs(dice, cluster.leaves, int(5_000 * scale))]
    state = ClusterState()
    feed(state, cluster.nodes, cluster.queues, jobs)
    for second in range(3):
        state.assume(schedule(snapshot_at(state, 1e6 + second), policy), 1e6 + second)
    return state, cluster.nodes, len(jobs)
