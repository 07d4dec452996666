"""Clusters as after a day of use: every node in a state of its own, queues in three levels, running and waiting jobs.

Nodes differ in free CPU and memory, in class and in what lies on their GPUs, so no two can be judged together.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from cotenant.core.model.objects import (
    WHOLE,
    GpuRequest,
    GrantedGpu,
    Job,
    Node,
    NodePlacement,
    Placement,
    Quota,
    RankPlacement,
    TenantQueue,
)
from tests.support.clusters import make_job, make_node

CLASSES = {"H100": 81_920, "A100": 40_960, "L40S": 46_080, "T4": 15_360}
"""Class → MiB."""
GPUS = 8
SHARES = (125, 200, 250, 333, 400, 500, 600, 750)


@dataclass(frozen=True)
class UsedCluster:
    nodes: list[Node]
    queues: list[TenantQueue]
    running: list[Job]

    @property
    def leaves(self) -> list[str]:
        """Names of queues that take jobs."""
        return [queue.name for queue in self.queues if queue.namespaces]


def used_cluster(dice: random.Random, count: int, *, running: int | None = None) -> UsedCluster:
    """`running`: at most so many jobs hold something."""
    queues = queue_tree(count * GPUS)
    leaves = [queue.name for queue in queues if queue.namespaces]
    nodes = [_node(dice, index) for index in range(count)]
    held = [job for node in nodes for job in _load(dice, node, leaves)]
    if running is not None and len(held) > running:
        held = dice.sample(held, running)
    return UsedCluster(nodes, queues, held)


def queue_tree(gpus: int) -> list[TenantQueue]:
    """28 queues: a root, three divisions, eight teams in each. Half of the teams have lines for single classes."""
    queues = [TenantQueue(name="all", namespaces=frozenset(), quotas=(Quota(guaranteed=gpus * WHOLE),))]
    for division in range(3):
        above = f"division-{division}"
        line = Quota(guaranteed=gpus * WHOLE // 3)
        queues.append(TenantQueue(name=above, parent="all", namespaces=frozenset(), quotas=(line,)))
        for team in range(8):
            name, fair = f"team-{division}-{team}", gpus * WHOLE // 24
            lines = tuple(Quota(gpu_class=name, guaranteed=fair // len(CLASSES)) for name in CLASSES)
            queues.append(
                TenantQueue(
                    name=name,
                    parent=above,
                    namespaces=frozenset({name}),
                    quotas=lines if team % 2 else (Quota(guaranteed=fair, limit=gpus * WHOLE // 4),),
                )
            )
    return queues


def job_shapes(dice: random.Random) -> list[dict[str, object]]:
    """20 requests: whole GPUs, shares, gangs, one class, several."""
    shapes: list[dict[str, object]] = []
    for number in range(20):
        wanted: dict[str, object] = {
            "cpu_milli": dice.choice((1_000, 2_000, 4_000, 6_000)),
            "memory_mib": dice.choice((4_096, 8_192, 16_384)),
        }
        classes = tuple(dice.sample(sorted(CLASSES), 1 + number % 2)) if number % 5 == 0 else ()
        if number % 2:
            wanted["gpu"] = GpuRequest(memory_milli=SHARES[number // 2 % len(SHARES)], classes=classes)
        else:
            wanted["gpu"] = GpuRequest(count=(1, 1, 2, 4, 8)[number // 2 % 5], classes=classes)
        if number in (3, 8, 13):
            wanted["workers"] = number // 2
        shapes.append(wanted)
    return shapes


def pending_jobs(dice: random.Random, leaves: list[str], count: int) -> list[Job]:
    shapes = job_shapes(dice)
    return [
        make_job(f"new{index}", queue=dice.choice(leaves), at=1e5 + index, **dice.choice(shapes))  # type: ignore[arg-type]
        for index in range(count)
    ]


def different_jobs(dice: random.Random, leaves: list[str], count: int) -> list[Job]:
    """Jobs of which no two ask for the same amounts."""
    jobs = []
    for number in range(count):
        classes = tuple(dice.sample(sorted(CLASSES), 1 + number % 2)) if number % 5 == 0 else ()
        share = GpuRequest(memory_milli=dice.randrange(50, 900), classes=classes)
        gpu = share if number % 2 else GpuRequest(count=dice.choice((1, 1, 2, 4)), classes=classes)
        cpu_milli, memory_mib = dice.randrange(500, 6_000, 10), dice.randrange(1_024, 16_384)
        queue, at = dice.choice(leaves), 1e5 + number
        jobs.append(make_job(f"new{number}", queue=queue, at=at, gpu=gpu, cpu_milli=cpu_milli, memory_mib=memory_mib))
    return jobs


def changed(dice: random.Random, node: Node) -> Node:
    """The node after a pod that is not Cotenant's came or went."""
    return replace(node, cpu_milli=node.cpu_milli + dice.choice((-300, -100, 100, 300)))


def _node(dice: random.Random, index: int) -> Node:
    name = dice.choice(sorted(CLASSES))
    return replace(
        make_node(
            f"node-{index:05}",
            gpus=GPUS,
            gpu_class=name,
            memory_mib=CLASSES[name],
            cpu_milli=dice.randrange(48_000, 128_000, 10),
            host_mib=dice.randrange(256 << 10, 1 << 20),
        ),
        zone=f"z{index % 3}",
        rack=f"r{index // 16}",
    )


def _load(dice: random.Random, node: Node, leaves: list[str]) -> list[Job]:
    """Jobs that fill some of the node's GPUs, in part or whole."""
    jobs: list[Job] = []
    busy = dice.randrange(0, GPUS)
    column = 0
    while column < busy:
        queue = dice.choice(leaves)
        if dice.random() < 0.5:
            width = min(dice.choice((1, 1, 2, 4)), busy - column)
            jobs.append(_running(dice, node, queue, (column, width), WHOLE))
            column += width
        else:
            left = WHOLE
            while left > 250 and dice.random() < 0.8:
                milli = dice.choice([share for share in SHARES if share <= left])
                jobs.append(_running(dice, node, queue, (column, 1), milli))
                left -= milli
            column += 1
    return jobs


def _running(dice: random.Random, node: Node, queue: str, where: tuple[int, int], milli: int) -> Job:
    column, width = where
    grants = tuple(
        GrantedGpu(uuid=gpu.uuid, memory_mib=gpu.memory_mib * milli // WHOLE, compute_milli=milli)
        for gpu in node.gpus[column : column + width]
    )
    serial = f"old-{node.name}-{column}-{dice.randrange(1 << 48):012x}"
    return make_job(
        serial,
        queue=queue,
        at=float(dice.randrange(100_000)),
        gpus=width,
        milli=None if milli == WHOLE else milli,
        cpu_milli=dice.choice((500, 1_000, 2_000)),
        memory_mib=4_096,
        placement=Placement(nodes=(NodePlacement(node=node.name, ranks=(RankPlacement(rank=0, gpus=grants),)),)),
        admitted_at=float(dice.randrange(100_000)),
        expected_runtime_s=dice.choice((None, 3_600, 86_400, 600_000)),
    )
