"""Clusters of the scenarios: equal nodes with equal queues, full clusters, and clusters in a `ClusterState`."""

from __future__ import annotations

import random
from dataclasses import replace

from cotenant.core.model.objects import Job, Node, Quota, TenantQueue
from cotenant.core.model.plan import Admit, Plan
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import JobObserved, NodeObserved, QueueObserved
from tests.support.clusters import make_job, make_node


def nodes(count: int) -> list[Node]:
    return [
        replace(make_node(f"node-{index:05}", gpus=8, cpu_milli=96_000), zone=f"z{index % 3}", rack=f"r{index // 16}")
        for index in range(count)
    ]


def tree(names: list[str], guaranteed: int) -> list[TenantQueue]:
    return [
        TenantQueue(name=name, namespaces=frozenset({name}), quotas=(Quota(guaranteed=guaranteed * 1000),))
        for name in names
    ]


def admitted(plan: Plan) -> int:
    return sum(1 for action in plan.actions if isinstance(action, Admit))


def full(names: list[str], count: int, dice: random.Random) -> tuple[list[Node], list[Job]]:
    """Every GPU of `count` nodes held by a one-GPU job."""
    machines = nodes(count)
    jobs = [make_job(f"old{index}", queue=dice.choice(names), at=float(index)) for index in range(count * 8)]
    plan = schedule(arrived(machines, tree(names, 0), jobs))
    placed = {action.job: action.placement for action in plan.actions if isinstance(action, Admit)}
    return machines, [replace(job, placement=placed[job.key], admitted_at=float(dice.randrange(1000))) for job in jobs]


def feed(state: ClusterState, machines: list[Node], queues: list[TenantQueue], jobs: list[Job]) -> None:
    for node in machines:
        state.observe(NodeObserved(node))
    for queue in queues:
        state.observe(QueueObserved(queue))
    for job in jobs:
        state.observe(JobObserved(job))


def snapshot_at(state: ClusterState, now: float) -> Snapshot:
    """What the scheduling loop does before it decides."""
    state.advance(now)
    return state.snapshot(now)


def arrived(machines: list[Node], queues: list[TenantQueue], jobs: list[Job], now: float = 0.0) -> Snapshot:
    """A cluster to which these jobs came at once: placement has learned from them, and nothing is counted yet."""
    state = ClusterState()
    feed(state, machines, queues, jobs)
    return replace(snapshot_at(state, now), accounting=None)
