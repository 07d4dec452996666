"""Rate of the core's decisions, without an API server: the scenarios of published schedulers, on clusters as large.

    python bench/throughput.py [--seed 1] [--only NAME …] [--scale 1.0] [--json FILE]

Prints one row per scenario with the goal beside it, and writes JSON. A scenario times `schedule` alone, or
`ClusterState.snapshot` plus `schedule` where the row says "cycle". The core is one thread without I/O, so "measured"
uses CPU seconds, which other work on the machine does not distort; wall-clock stands beside it.
Nothing here is a test: machines differ.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.parts.used_cluster import changed, pending_jobs, used_cluster
from cotenant.core import ClusterState, schedule
from cotenant.core.model.objects import Job, Node, Quota, TenantQueue
from cotenant.core.model.plan import Admit, Evict, Plan, Resize
from cotenant.core.scheduling.scheduler import decide
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.facts import JobObserved, NodeObserved, QueueObserved
from cotenant.testing import make_job, make_node


@dataclass(frozen=True)
class Row:
    scenario: str
    measured: float
    unit: str
    goal: str
    met: bool
    cpu_s: float
    wall_s: float
    note: str
    peak_mib: int


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


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


@dataclass(frozen=True)
class Spent:
    cpu: float
    wall: float


def timed(call: Callable[[], Plan]) -> tuple[Spent, Plan]:
    gc.collect()  # what the set-up left behind is not the cycle's to clear
    cpu, wall = time.process_time(), time.perf_counter()
    plan = call()
    return Spent(time.process_time() - cpu, time.perf_counter() - wall), plan


def admitted(plan: Plan) -> int:
    return sum(1 for action in plan.actions if isinstance(action, Admit))


def one_gpu_jobs(dice: random.Random, scale: float) -> Row:
    """More jobs than GPUs: what does not fit is refused, and counts as a decision."""
    count = int(50_000 * scale)
    names = [f"team-{index:02}" for index in range(20)]
    jobs = [
        make_job(f"j{index}", queue=dice.choice(names), at=float(index), cpu_milli=dice.choice((4_000, 8_000, 10_000)))
        for index in range(count)
    ]
    snapshot = Snapshot(
        now=1e6, nodes=tuple(nodes(int(5_000 * scale))), queues=tuple(tree(names, 2_000)), jobs=tuple(jobs)
    )
    spent, plan = timed(lambda: schedule(snapshot))
    note = f"{admitted(plan)} placed"
    return rate("50,000 one-GPU jobs, 5,000 nodes", count, "decisions/s", 5_000, spent=spent, note=note)


def rate(scenario: str, count: int, unit: str, goal: float, *, spent: Spent, note: str) -> Row:
    measured = count / spent.cpu
    return Row(scenario, measured, unit, f"≥ {goal:g}", measured >= goal, spent.cpu, spent.wall, note, peak_mib())


def duration(scenario: str, goal: float, *, spent: Spent, note: str) -> Row:
    return Row(scenario, spent.cpu, "s", f"≤ {goal:g}", spent.cpu <= goal, spent.cpu, spent.wall, note, peak_mib())


def gangs_of_four(dice: random.Random, scale: float) -> Row:
    names = [f"team-{index:02}" for index in range(20)]
    count = int(2_000 * scale)
    jobs = [
        make_job(f"g{index}", queue=dice.choice(names), at=float(index), workers=4, cpu_milli=8_000)
        for index in range(count)
    ]
    snapshot = Snapshot(
        now=1e6, nodes=tuple(nodes(int(5_000 * scale))), queues=tuple(tree(names, 2_000)), jobs=tuple(jobs)
    )
    spent, plan = timed(lambda: schedule(snapshot))
    note = f"{admitted(plan)} gangs placed"
    return rate("2,000 gangs of 4, 5,000 nodes", admitted(plan) * 4, "workers/s", 3_000, spent=spent, note=note)


def large_gangs(dice: random.Random, scale: float) -> Row:
    size = int(5_000 * scale)
    jobs = [
        make_job(f"big{index}", queue="team", at=float(index), workers=size, cpu_milli=8_000) for index in range(10)
    ]
    snapshot = Snapshot(
        now=1e6, nodes=tuple(nodes(int(5_000 * scale))), queues=tuple(tree(["team"], 40_000)), jobs=tuple(jobs)
    )
    spent, plan = timed(lambda: schedule(snapshot))
    workers = admitted(plan) * size
    note = f"{admitted(plan)} gangs placed"
    return rate("10 gangs of 5,000, 5,000 nodes", workers, "workers/s", 3_000, spent=spent, note=note)


def full(names: list[str], count: int, dice: random.Random) -> tuple[list[Node], list[Job]]:
    """Every GPU of `count` nodes held by a one-GPU job."""
    machines = nodes(count)
    snapshot = Snapshot(
        now=0.0,
        nodes=tuple(machines),
        queues=tuple(tree(names, 0)),
        jobs=tuple(make_job(f"old{index}", queue=dice.choice(names), at=float(index)) for index in range(count * 8)),
    )
    plan = schedule(snapshot)
    placed = {action.job: action.placement for action in plan.actions if isinstance(action, Admit)}
    return machines, [
        replace(job, placement=placed[job.key], admitted_at=float(dice.randrange(1000))) for job in snapshot.jobs
    ]


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
    snapshot = Snapshot(
        now=1e6, nodes=tuple(small), queues=tuple(queues), jobs=(make_job("gang", queue="team", workers=80),)
    )
    spent, plan = timed(lambda: schedule(snapshot))
    reason = plan.verdicts["team/gang"].reason
    return duration("an impossible gang of 80, 1,000 nodes", 0.1, spent=spent, note=str(reason))


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


def running_cluster(dice: random.Random, scale: float) -> Row:
    """4,000 nodes, 140,000 running workers on quarter shares; one new job and one refusal; the second cycle counts."""
    names = [f"team-{index:02}" for index in range(20)]
    machines = nodes(int(4_000 * scale))
    queues = tree(names, 1_500)
    jobs = [
        make_job(f"s{index}", queue=dice.choice(names), at=float(index), milli=200, workers=4)
        for index in range(int(35_000 * scale))
    ]
    plan = schedule(Snapshot(now=0.0, nodes=tuple(machines), queues=tuple(queues), jobs=tuple(jobs)))
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
    """150 elastic jobs hold shares of all GPUs, and a job takes some back: what it costs that each asked for 10,000
    workers and not for 500. Either is more than there is."""
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


def used_nodes(dice: random.Random, scale: float) -> Row:
    """Nodes that all differ, 28 queues in three levels, 20 shapes: no two nodes can be judged at once."""
    cluster = used_cluster(dice, int(5_000 * scale))
    jobs = pending_jobs(dice, cluster.leaves, int(5_000 * scale))
    state = ClusterState()
    feed(state, cluster.nodes, cluster.queues, [*cluster.running, *jobs])
    snapshot = snapshot_at(state, 1e6)
    spent, plan = timed(lambda: schedule(snapshot))
    note = f"{len(cluster.running)} run, {admitted(plan)} placed"
    return rate("5,000 jobs, 5,000 different nodes", len(jobs), "decisions/s", 2_000, spent=spent, note=note)


def steady_state(dice: random.Random, scale: float) -> Row:
    """The cycle after one in a hundred of the different nodes has changed, where what could start has started."""
    state, nodes_, _ = settled(dice, scale)
    last = decide(snapshot_at(state, 1e6 + 3))
    for node in dice.sample(nodes_, max(1, len(nodes_) // 100)):
        state.observe(NodeObserved(changed(dice, node)))
    spent, plan = timed(lambda: decide(snapshot_at(state, 1e6 + 60), last=last).plan)
    note = f"{admitted(plan)} placed, {len(plan.verdicts)} wait"
    return duration("cycle, 1 % of 5,000 different nodes changed", 0.05, spent=spent, note=note)


def unchanged(dice: random.Random, scale: float) -> Row:
    """A minute after the last decision, on which the cycle goes on as the operator's does."""
    state, _, jobs = settled(dice, scale)
    last = decide(snapshot_at(state, 1e6 + 3))
    spent, plan = timed(lambda: decide(snapshot_at(state, 1e6 + 60), last=last).plan)
    note = f"{jobs} jobs, {len(plan.verdicts)} wait"
    return duration("cycle, nothing changed", 0.005, spent=spent, note=note)


def settled(dice: random.Random, scale: float) -> tuple[ClusterState, list[Node], int]:
    """A cluster with more jobs than fit, after the cycles in which those that fit have started."""
    cluster = used_cluster(dice, int(5_000 * scale))
    jobs = [*cluster.running, *pending_jobs(dice, cluster.leaves, int(5_000 * scale))]
    state = ClusterState()
    feed(state, cluster.nodes, cluster.queues, jobs)
    for second in range(3):
        state.assume(schedule(snapshot_at(state, 1e6 + second)), 1e6 + second)
    return state, cluster.nodes, len(jobs)


SCENARIOS: dict[str, Callable[[random.Random, float], Row]] = {
    "jobs": one_gpu_jobs,
    "gangs": gangs_of_four,
    "large": large_gangs,
    "reclaim": reclaim,
    "reclaims": reclaim_one_by_one,
    "impossible": impossible,
    "cycle": running_cluster,
    "absurd": absurd_gangs,
    "used": used_nodes,
    "steady": steady_state,
    "unchanged": unchanged,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--scale", type=float, default=1.0, help="size of cluster and load; goals hold for 1.0")
    parser.add_argument("--json", type=Path, default=Path("bench/results/throughput.json"))
    args = parser.parse_args()
    rows = []
    print(
        f"{'scenario':42} {'measured':>12} {'unit':12} {'goal':>8}  {'':4}"
        f" {'cpu s':>8} {'wall s':>8} {'peak MiB':>8}  note"
    )
    for name in args.only:
        result = SCENARIOS[name](random.Random(args.seed), args.scale)
        rows.append(result)
        word = "met" if result.met else "MISS"
        print(
            f"{result.scenario:42} {result.measured:>12,.3f} {result.unit:12} {result.goal:>8}  {word:4}"
            f" {result.cpu_s:>8.2f} {result.wall_s:>8.2f} {result.peak_mib:>8}  {result.note}",
            flush=True,
        )
    args.json.parent.mkdir(parents=True, exist_ok=True)
    document = {"seed": args.seed, "scale": args.scale, "rows": [asdict(result) for result in rows]}
    args.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
