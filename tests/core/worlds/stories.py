"""Stories of random clusters, drawn from a seed, and their plans as text: every action, reason, place and estimate.

`python -m tests.core.worlds.stories 17` prints the story of seed 17, `--write` takes the plans of all as reviewed. To
see what a change does to plans, print a story before and after it, and compare.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import (
    GpuRequest,
    Job,
    Node,
    Placement,
    Quota,
    Sharing,
    TenantQueue,
    Topology,
    TopologyMode,
)
from cotenant.core.model.plan import Action, Admit, Plan, Resize, Verdict
from cotenant.core.placement.packing.value_tables import ValueTables
from cotenant.core.placement.packing.workload_mix import WorkloadMix
from cotenant.core.placement.shapes import worker_shape
from cotenant.core.policy import Policy
from cotenant.core.state.facts import NodeGone, NodeObserved
from tests.support.clusters import ToyCluster, make_node

REVIEWED = Path(__file__).with_name("reviewed_plans.json")
SEEDS = 60
CYCLES = 14
T = TypeVar("T")
CLASSES, ZONES = ("A100", "H100"), ("east", "west")


class Draw:
    """Draws that stay the same in every version of Python: `random.random` alone is promised to."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one(self, choices: Sequence[T]) -> T:
        return choices[int(self._random.random() * len(choices))]

    def number(self, low: int, high: int) -> int:
        return low + int(self._random.random() * (high - low + 1))

    def chance(self, percent: int) -> bool:
        return self._random.random() * 100 < percent


def story(seed: int) -> Iterator[str]:
    """Lines of a whole story: what happens between the cycles, and each plan."""
    draw = Draw(seed)
    nodes = [draw_node(draw, index) for index in range(draw.number(2, 6))]
    queues = draw_queues(draw)
    policy = Policy(
        protected_runtime_s=draw.one((0, 0, 300)),
        reserve_within_s=draw.one((3_600, 3_600, 0)),
        moves=draw.one((4, 1)),
        forecasts=draw.one((16, 2)),
    )
    toy = ToyCluster(nodes, queues, policy=policy)
    made = 0
    for cycle in range(CYCLES):
        for _ in range(draw.number(0, 5 if cycle < 8 else 2)):
            toy.observe(draw_job(draw, made, queues, toy.now))
            made += 1
        yield from happenings(draw, toy, nodes)
        yield f"-- cycle {cycle} at {toy.now + 1.0:g}"
        yield from _plan(toy.cycle())
        if draw.chance(70):
            toy.finish_evictions()
        toy.now += draw.one((0.0, 30.0, 600.0, 4_000.0))
    yield from (
        f"past {past.queue} {past.milli_seconds:.0f} {past.half_life_s:g}" for past in toy.snapshot().usage_history
    )


def _mix(draw: Draw, inventory: Inventory) -> Iterator[str]:
    """What placement would believe to come next after sixty jobs, of which some are alike."""
    demands = [
        (
            replace(worker_shape(draw_job(draw, index, [TenantQueue(name="q")], 0.0)), host_mib=draw.one((0, 64))),
            draw.one((1.0, 1.0, 40.0)),
        )
        for index in range(60)
    ]
    mix = WorkloadMix.of(demands, inventory)
    yield f"even {ValueTables(mix, inventory, np.array([0.0, 70.0])).even}"
    yield from (f"mix {shape} {weight}" for shape, weight in zip(mix.shapes, mix.weight.tolist(), strict=True))
    yield from (f"part {part} {weight}" for part, weight in zip(mix.parts, mix.part_weight, strict=True))


def digest(seed: int) -> str:
    return hashlib.sha256("\n".join(story(seed)).encode()).hexdigest()[:16]


def happenings(draw: Draw, toy: ToyCluster, nodes: list[Node]) -> Iterator[str]:
    """Jobs end, save and are moved by hand; nodes and GPUs fall out of sight and come back."""
    for job in list(toy.jobs.values()):
        if job.placement is None or job.evicting:
            continue
        if draw.chance(12):
            yield f"ends {job.key}"
            toy.end(job.key)
        elif draw.chance(20):
            toy.observe(replace(job, last_checkpoint_at=toy.now))
    if draw.chance(25):
        index = draw.number(0, len(nodes) - 1)
        node = nodes[index]
        lost = replace(node.gpus[0], healthy=False, missing_since=toy.now - draw.one((0.0, 100.0)))
        changed = draw.one(
            (
                replace(node, ready=not node.ready),
                replace(node, gpus=(lost, *node.gpus[1:])),
                replace(node, gpus=tuple(replace(gpu, healthy=True, missing_since=None) for gpu in node.gpus)),
                replace(node, deleted=not node.deleted, ready=node.deleted),
                replace(node, gpus=(*node.gpus[:-1], replace(node.gpus[-1], suspect=True))),
            )
        )
        nodes[index] = changed
        gone = changed.deleted and draw.chance(50)
        yield f"node {node.name}: {'gone' if gone else _state(changed)}"
        toy.state.observe(NodeGone(node.name) if gone else NodeObserved(changed))


def _state(node: Node) -> str:
    gpus = "".join("." if gpu.healthy and not gpu.suspect else "s" if gpu.suspect else "x" for gpu in node.gpus)
    return f"{'ready' if node.ready else 'not ready'}{', deleted' if node.deleted else ''} {gpus}"


# -- drawn documents ---------------------------------------------------------------------------------------------------


def draw_node(draw: Draw, index: int) -> Node:
    gpus = draw.one((1, 2, 4, 8))
    return make_node(
        f"n{index}",
        gpus=gpus,
        gpu_class=draw.one(CLASSES),
        memory_mib=draw.one((40_000, 81_559)),
        cpu_milli=draw.one((8_000, 64_000)),
        host_mib=draw.one((16_000, 512_000)),
        peers=(tuple(range(gpus // 2)), tuple(range(gpus // 2, gpus))) if draw.chance(50) else (),
        zone=draw.one(ZONES),
        rack=draw.one(("r1", "r2")),
        shared_by_queues=draw.chance(40),
    )


def draw_queues(draw: Draw) -> list[TenantQueue]:
    found: list[TenantQueue] = []
    for index in range(draw.number(1, 5)):
        quotas = tuple(_line(draw) for _ in range(draw.one((1, 1, 2))))
        found.append(
            TenantQueue(
                name=f"q{index}",
                parent=draw.one([None, *(queue.name for queue in found)]),
                namespaces=frozenset({"ns"}),
                weight=draw.number(0, 3),
                quotas=quotas,
                user_limit=draw.one((None, None, None, 3_000)),
                budget_left=0 if draw.chance(2) else None,
                consolidation=draw.chance(50),
                protected_runtime_s=draw.one((0, 0, 60)),
                half_life_s=draw.one((None, None, 3_600)),
            )
        )
    return found


def _line(draw: Draw) -> Quota:
    return Quota(
        gpu_class=draw.one((None, None, None, None, *CLASSES)),
        zone=draw.one((None, None, None, None, *ZONES)),
        guaranteed=draw.number(0, 6) * 1000,
        limit=draw.one((None, None, None, 2_500, 8_000)),
        lendable=draw.one((None, None, 0, 1_000)),
        memory_limit_mib=200_000 if draw.chance(10) else None,
    )


def draw_job(draw: Draw, index: int, queues: list[TenantQueue], now: float) -> Job:
    low = draw.one((1, 1, 2, 4))
    name = draw.one(queues).name if draw.chance(99) else "unknown"
    return Job(
        key=f"ns/j{index}",
        uid=f"uid-{index}",
        namespace="ns",
        queue=name,
        user=draw.one(("ann", "bob")),
        priority=draw.one((0, 0, 1, 2)),
        workers_min=low,
        workers_max=low + draw.one((0, 0, 0, 3)),
        gpu=_request(draw),
        cpu_milli=draw.one((0, 1_000, 5_000)),
        memory_mib=draw.one((0, 0, 9_000)),
        topology=draw.one(
            (None, None, None, Topology("rack", TopologyMode.REQUIRED), Topology("zone", TopologyMode.PREFERRED))
        ),
        distinct_gpus=draw.chance(70),
        submitted_at=now,
        preemptible=draw.chance(85),
        expected_runtime_s=draw.one((None, 60, 3_600)),
        max_runtime_s=draw.one((None, None, 7_200)),
        excluded_nodes=frozenset({"n0"}) if draw.chance(10) else frozenset(),
    )


def _request(draw: Draw) -> GpuRequest:
    classes = draw.one(((), (), (), ("H100",), ("A100", "H100")))
    zones = draw.one(((), (), (), ("east",)))
    sharing = draw.one(tuple(Sharing))
    kind = draw.one(("whole", "whole", "milli", "mib", "both"))
    if kind == "whole":
        return GpuRequest(count=draw.one((1, 1, 2, 4)), classes=classes, zones=zones, sharing=sharing)
    if kind == "mib":
        return GpuRequest(memory_mib=draw.one((1, 13_333, 39_999)), classes=classes, sharing=sharing)
    compute = draw.one((None, 100, 600)) if kind == "both" else None
    milli = draw.one((1, 250, 333, 400, 500, 1000))
    return GpuRequest(memory_milli=milli, compute_milli=compute, classes=classes, zones=zones, sharing=sharing)


# -- plans as text -----------------------------------------------------------------------------------------------------


def _plan(plan: Plan) -> Iterator[str]:
    yield from map(_action, plan.actions)
    yield from (_verdict(plan.verdicts[key]) for key in sorted(plan.verdicts))
    yield from (f"nominated {key} {_places(plan.nominations[key])}" for key in sorted(plan.nominations))


def _action(action: Action) -> str:
    if isinstance(action, Admit):
        return f"admit {action.job} {_places(action.placement)}"
    if isinstance(action, Resize):
        return f"resize {action.job} {_places(action.placement)} {action.message}"
    return f"evict {action.job} {action.kind} for {action.in_favour_of}: {action.message}"


def _verdict(verdict: Verdict) -> str:
    why = f"{verdict.reason}: {verdict.message} {dict(verdict.evidence)}"
    return f"wait {verdict.job} {why} | {verdict.would_start_if}"


def _places(placement: Placement) -> str:
    return " ".join(
        f"{node.node}["
        + " ".join(
            f"{rank.rank}:" + ",".join(f"{gpu.uuid}/{gpu.memory_mib}/{gpu.compute_milli}" for gpu in rank.gpus)
            for rank in node.ranks
        )
        + "]"
        for node in placement.nodes
    )


if __name__ == "__main__":
    if "--write" in sys.argv:
        REVIEWED.write_text(json.dumps([digest(seed) for seed in range(SEEDS)], indent=0) + "\n")
    else:
        print("\n".join(story(int(sys.argv[1]))))
