"""How often a waiting job is advised, if some single change of it would start it. Every change of a catalogue is tried.

    python -m bench.parts.single_changes [--worlds 40] [--first 0]

In random worlds after some cycles, one field of each waiting job is set to every value that a tenant may write there,
and the same cycle is decided from scratch. `exists`: some change starts the job, in this cycle and in the next one.
`offered`: the job's verdict names a change. `starts`: the named change starts the job. A change that starts the job in
this cycle alone does not count, because it takes a place that another job gets now. The catalogue does not know how
advice is searched for.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from cotenant.core.model.objects import GpuRequest, Job, Sharing, TopologyMode
from cotenant.core.model.plan import Plan, Reason
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.query.situation import Situation
from tests.core.scheduling.test_advice import edited, is_started, with_job
from tests.core.worlds.stories import Draw, draw_job, draw_node, draw_queues, happenings
from tests.support.clusters import ToyCluster

POLICY = Policy(advice=100_000)
"""No bound on advice: the search is measured, not its budget."""
SECONDS = (1, 60, 600, 3_600)
PRIORITIES = range(-1, 12)
CYCLES = 9


def catalogue(job: Job, snapshot: Snapshot) -> Iterator[tuple[str, Job]]:
    """(name of the field, the job with another value in it)."""
    gpu = job.gpu
    classes = sorted({one.gpu_class for node in snapshot.nodes for one in node.gpus})
    zones = sorted({node.zone for node in snapshot.nodes})
    for number in range(1, job.workers_min):
        most = number if job.workers_max == job.workers_min else job.workers_max
        yield "workers", replace(job, workers_min=number, workers_max=most)
    if gpu.classes:
        yield from (("class", _gpu(job, classes=(*gpu.classes, name))) for name in classes if name not in gpu.classes)
        yield "class", _gpu(job, classes=())
    if gpu.zones:
        yield from (("zone", _gpu(job, zones=(*gpu.zones, name))) for name in zones if name not in gpu.zones)
        yield "zone", _gpu(job, zones=())
    if gpu.is_share:
        yield from (("sharing", _gpu(job, sharing=one)) for one in Sharing if one is not gpu.sharing)
        yield from (("share", _gpu(job, **part)) for part in _parts(gpu))
        yield from (("gpus", _gpu(job, count=number)) for number in range(1, gpu.count))
    else:
        yield from (("gpus", _gpu(job, count=number)) for number in range(1, gpu.count))
        yield from (("gpus", _gpu(job, count=1, memory_milli=part)) for part in (1, 250, 500, 900))
    if job.topology is not None and job.topology.mode is TopologyMode.REQUIRED:
        yield "topology", replace(job, topology=replace(job.topology, mode=TopologyMode.PREFERRED))
    if job.spread is not None and job.spread.mode is TopologyMode.REQUIRED:
        yield "spread", replace(job, spread=replace(job.spread, mode=TopologyMode.PREFERRED, most=1))
    yield from (("cpu", replace(job, cpu_milli=amount)) for amount in (1, 500, 1_000, 4_000) if amount < job.cpu_milli)
    if job.memory_mib > 1:
        yield "memory", replace(job, memory_mib=1)
    if job.distinct_gpus and gpu.is_share:
        yield "ranks together", replace(job, distinct_gpus=False)
    yield from (
        ("priority", replace(job, priority=one, priority_class="")) for one in PRIORITIES if one != job.priority
    )
    for seconds in SECONDS:
        expected = job.expected_runtime_s
        if job.max_runtime_s is None or seconds < job.max_runtime_s:
            bounded = None if expected is None else min(expected, seconds)
            yield "run time", replace(job, max_runtime_s=seconds, expected_runtime_s=bounded)


def _gpu(job: Job, **changes: object) -> Job:
    return replace(job, gpu=replace(job.gpu, **changes))  # type: ignore[arg-type]


def _parts(gpu: GpuRequest) -> Iterator[dict[str, object]]:
    for name in ("memory_milli", "memory_mib", "compute_milli"):
        amount = getattr(gpu, name)
        if amount is not None:
            yield from ({name: max(1, amount * percent // 100)} for percent in (1, 25, 50, 75, 90))
    if gpu.compute_milli is not None:
        for percent in (1, 25, 50, 75, 90):
            both = {name: getattr(gpu, name) for name in ("memory_milli", "memory_mib", "compute_milli")}
            yield {name: None if one is None else max(1, one * percent // 100) for name, one in both.items()}


@dataclass(slots=True)
class Tally:
    exists: int = 0
    offered: int = 0
    starts: int = 0
    given: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    """Fields whose change would have started a job that got no advice."""
    stories: list[str] = field(default_factory=list)

    def count(self, name: str, snapshot: Snapshot, plan: Plan) -> None:
        jobs = {job.key: job for job in snapshot.jobs}
        following = Situation(snapshot, plan, POLICY).snapshot
        for key, verdict in plan.verdicts.items():
            job = jobs[key]
            if verdict.reason is Reason.WAITING_FOR_EVICTION:
                continue
            if verdict.change:
                self.given += 1
                if is_started(schedule(with_job(snapshot, edited(job, verdict.change)), POLICY), key):
                    self.starts, self.exists, self.offered = self.starts + 1, self.exists + 1, self.offered + 1
                continue
            changes = catalogue(job, snapshot)
            helps = sorted({what for what, one in changes if _starts(snapshot, one) and _starts(following, one)})
            if helps:
                self.exists += 1
                self.missed[", ".join(helps)] += 1
                self.stories.append(f"{name} {key}: {verdict.reason.value}: {helps}")


def _starts(snapshot: Snapshot, changed: Job) -> bool:
    return is_started(schedule(with_job(snapshot, changed), replace(POLICY, advice=0, forecasts=0)), changed.key)


def moments(seed: int) -> Iterator[Snapshot]:
    """Snapshots of a random cluster at some moments of its story."""
    draw = Draw(seed)
    nodes, queues = [draw_node(draw, index) for index in range(draw.number(2, 6))], draw_queues(draw)
    toy = ToyCluster(nodes, queues, policy=POLICY)
    made = 0
    for cycle in range(CYCLES):
        for _ in range(draw.number(0, 5)):
            toy.observe(draw_job(draw, made, queues, toy.now))
            made += 1
        for _ in happenings(draw, toy, nodes):
            pass
        toy.cycle()
        toy.finish_evictions()
        if cycle % 3 == 2:
            yield replace(toy.snapshot(), accounting=None)
        toy.now += draw.one((0.0, 30.0, 600.0))


def measure(first: int, worlds: int) -> Tally:
    tally = Tally()
    for seed in range(first, first + worlds):
        for number, snapshot in enumerate(moments(seed)):
            tally.count(f"world {seed}, moment {number}", snapshot, schedule(snapshot, POLICY))
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--stories", type=int, default=0, help="print so many jobs that were not advised")
    args = parser.parse_args()
    tally = measure(args.first, args.worlds)
    print(f"exists {tally.exists}, offered {tally.offered} ({100 * tally.offered / max(1, tally.exists):.1f} %)")
    print(f"advice {tally.given}, starts {tally.starts} ({100 * tally.starts / max(1, tally.given):.1f} %)")
    for fields, number in tally.missed.most_common():
        print(f"missed {number}: {fields}")
    for story in tally.stories[: args.stories]:
        print(story)


if __name__ == "__main__":
    main()
