"""Scenarios of one decision: many jobs at once, large gangs, reclaim, a gang that can never start."""

from __future__ import annotations

import random
from dataclasses import replace

from bench.parts.throughput.clusters import admitted, arrived, feed, full, nodes, snapshot_at, tree
from bench.parts.throughput.rows import Row, duration, rate, timed
from cotenant.core.model.plan import Evict, Resize
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.state.cluster_state import ClusterState
from tests.support.clusters import make_job


def one_gpu_jobs(dice: random.Random, scale: float) -> Row:
    """More jobs than GPUs. A refusal counts as a decision."""
    count = int(50_000 * scale)
    names = [f"team-{index:02}" for index in range(20)]
    jobs = [
        make_job(f"j{index}", queue=dice.choice(names), at=float(index), cpu_milli=dice.choice((4_000, 8_000, 10_000)))
        for index in range(count)
    ]
    snapshot = arrived(nodes(int(5_000 * scale)), tree(names, 2_000), jobs, 1e6)
    spent, plan = timed(lambda: schedule(snapshot))
    note = f"{admitted(plan)} placed"
    return rate("50,000 one-GPU jobs, 5,000 nodes", count, "decisions/s", 5_000, spent=spent, note=note)


def gangs_of_four(dice: random.Random, scale: float) -> Row:
    names = [f"team-{index:02}" for index in range(20)]
    count = int(2_000 * scale)
    jobs = [
        make_job(f"g{index}", queue=dice.choice(names), at=float(index), workers=4, cpu_milli=8_000)
        for index in range(count)
    ]
    snapshot = arrived(nodes(int(5_000 * scale)), tree(names, 2_000), jobs, 1e6)
    spent, plan = timed(lambda: schedule(snapshot))
    note = f"{admitted(plan)} gangs placed"
    return rate("2,000 gangs of 4, 5,000 nodes", admitted(plan) * 4, "workers/s", 3_000, spent=spent, note=note)


def large_gangs(dice: random.Random, scale: float) -> Row:
    size = int(5_000 * scale)
    jobs = [
        make_job(f"big{index}", queue="team", at=float(index), workers=size, cpu_milli=8_000) for index in range(10)
    ]
    snapshot = arrived(nodes(int(5_000 * scale)), tree(["team"], 40_000), jobs, 1e6)
    spent, plan = timed(lambda: schedule(snapshot))
    workers = admitted(plan) * size
    note = f"{admitted(plan)} gangs placed"
    return rate("10 gangs of 5,000, 5,000 nodes", workers, "workers/s", 3_000, spent=spent, note=note)


def reclaim(dice: random.Random, scale: float) -> Row:
    """A full cluster of borrowers; a queue asks for half of it back in one gang of whole nodes."""
    count = int(1_000 * scale)
    machines, running = full([f"team-{index}" for index in range(10)], count, dice)
    queues = [*tree([f"team-{index}" for index in range(10)], 0), *tree(["owner"], count * 8)]
    state = ClusterState()
    feed(state, machines, queues, [*running, make_job("gang", queue="owner", workers=count * 4, at=1e5)])
    snapshot_at(state, 1e6)
    spent, plan = timed(lambda: schedule(snapshot_at(state, 1e6)))
    gone = sum(1 for action in plan.actions if isinstance(action, Evict | Resize))
    return duration("reclaim half of 1,000 full nodes, cycle", 0.5, spent=spent, note=f"{gone} leave")


def reclaim_one_by_one(dice: random.Random, scale: float) -> Row:
    count = int(1_000 * scale)
    machines, running = full([f"team-{index}" for index in range(10)], count, dice)
    queues = [*tree([f"team-{index}" for index in range(10)], 0), *tree(["owner"], count * 8)]
    asking = [make_job(f"one{index}", queue="owner", at=1e5 + index) for index in range(count)]
    state = ClusterState()
    feed(state, machines, queues, [*running, *asking])
    snapshot_at(state, 1e6)
    spent, plan = timed(lambda: schedule(snapshot_at(state, 1e6)))
    gone = sum(1 for action in plan.actions if isinstance(action, Evict | Resize))
    return rate("1,000 jobs each reclaim one GPU, cycle", gone, "evictions/s", 500, spent=spent, note=f"{gone} leave")


def impossible(dice: random.Random, scale: float) -> Row:
    """80 whole GPUs in a cluster of 8-GPU nodes that has 72."""
    queues = tree(["team"], 1_000)
    machines = nodes(int(1_000 * scale))
    small = [replace(node, gpus=node.gpus if index < 9 else ()) for index, node in enumerate(machines)]
    snapshot = arrived(small, queues, [make_job("gang", queue="team", workers=80)], 1e6)
    spent, plan = timed(lambda: schedule(snapshot))
    reason = plan.verdicts["team/gang"].reason
    return duration("an impossible gang of 80, 1,000 nodes", 0.1, spent=spent, note=str(reason))
