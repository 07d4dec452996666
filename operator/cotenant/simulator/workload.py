"""Turns a trace and a cluster into a scenario: nodes, queues, and jobs with the trace's arrivals and run times.

A gang that fits one node is one worker. A larger gang has one worker per node if it fills whole nodes, otherwise one
per GPU. Queues that only the trace names are guaranteed GPUs in proportion to the GPU time that they used in it, and
may borrow the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.core.model.objects import WHOLE, Gpu, GpuRequest, Job, Node, Quota, TenantQueue
from cotenant.simulator.scenario import UNKNOWN_MIB, Arrival, Scenario
from cotenant.simulator.traces.trace import Trace, TraceError, TraceJob

GPU_MIB = 81_920
_NODES = re.compile(r"(\d+)x(\d+)(?::([A-Za-z0-9][A-Za-z0-9._-]*))?")


def nodes_of(text: str) -> tuple[Node, ...]:
    """Nodes from `52x8`, or `40x8:A100,24x4:V100`: nodes × GPUs of a class. Raises TraceError."""
    nodes: list[Node] = []
    for part in text.split(","):
        match = _NODES.fullmatch(part.strip())
        if match is None or not int(match[1]) or not int(match[2]):
            raise TraceError(f"the cluster {text!r} is not like 52x8 or 40x8:A100,24x4:V100 (nodes x GPUs : class)")
        for _ in range(int(match[1])):
            nodes.append(_node(f"node-{len(nodes):04d}", int(match[2]), match[3] or "GPU"))
    return tuple(nodes)


def _node(name: str, gpus: int, gpu_class: str) -> Node:
    return Node(
        name=name,
        gpus=tuple(
            Gpu(uuid=f"GPU-{name}-{index}", gpu_class=gpu_class, memory_mib=GPU_MIB, index=index)
            for index in range(gpus)
        ),
        cpu_milli=UNKNOWN_MIB,
        memory_mib=UNKNOWN_MIB,
    )


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: tuple[Node, ...]
    queues: tuple[TenantQueue, ...] = ()
    """The queues; empty for those that the trace names."""

    @property
    def gpus(self) -> int:
        return sum(len(node.gpus) for node in self.nodes)


def scenario_of(trace: Trace, cluster: Cluster) -> Scenario:
    """The scenario. Raises TraceError if the trace names a queue that the cluster does not have."""
    queues = cluster.queues or queues_of(trace.jobs, cluster.gpus)
    unknown = sorted({job.queue for job in trace.jobs} - {queue.name for queue in queues})
    if unknown:
        raise TraceError(
            f"the trace names queues that are not among the documents: {', '.join(unknown)}; "
            "give them Queues, or play everything in one queue (--queue NAME)"
        )
    widest = max((len(node.gpus) for node in cluster.nodes), default=1)
    arrivals = tuple(
        Arrival(at=job.submitted_at, job=_core_job(job, number, widest), train_s=job.duration_s)
        for number, job in enumerate(trace.jobs)
    )
    return Scenario(start=trace.jobs[0].submitted_at, nodes=cluster.nodes, queues=queues, arrivals=arrivals)


def queues_of(jobs: Sequence[TraceJob], gpus: int) -> tuple[TenantQueue, ...]:
    """Queues whose guarantees are proportional to their GPU time, in whole GPUs by largest remainder. Together they are
    all GPUs.
    """
    used: dict[str, float] = {}
    for job in jobs:
        used[job.queue] = used.get(job.queue, 0.0) + job.duration_s * job.gpus * job.gpu_milli / WHOLE
    guaranteed = apportioned(used, gpus)
    return tuple(
        TenantQueue(name=name, namespaces=frozenset({name}), quotas=(Quota(guaranteed=guaranteed[name] * WHOLE),))
        for name in sorted(used)
    )


def apportioned(weights: Mapping[str, float], seats: int) -> dict[str, int]:
    """Whole seats in proportion to weights, by Hamilton's method: the floors, then the largest remainders."""
    total = sum(weights.values()) or 1.0
    exact = {name: seats * weight / total for name, weight in weights.items()}
    found = {name: int(share) for name, share in exact.items()}
    rest = sorted(exact, key=lambda name: (found[name] - exact[name], name))
    for name in rest[: seats - sum(found.values())]:
        found[name] += 1
    return found


def _core_job(job: TraceJob, number: int, widest: int) -> Job:
    per_worker = job.gpus if job.gpus <= widest else (widest if job.gpus % widest == 0 else 1)
    workers = job.gpus // per_worker
    share = job.gpu_milli < WHOLE
    return Job(
        key=f"{job.queue}/{job.name}",
        uid=f"{number}",
        namespace=job.queue,
        queue=job.queue,
        user=job.user,
        priority=job.priority,
        workers_min=workers,
        workers_max=workers,
        gpu=GpuRequest(
            count=per_worker,
            memory_milli=job.gpu_milli if share else None,
            compute_milli=job.gpu_milli if share else None,
            classes=job.gpu_classes,
        ),
        cpu_milli=job.cpu_milli // workers,
        memory_mib=job.memory_mib // workers,
        submitted_at=job.submitted_at,
        expected_runtime_s=job.declared_s,
    )
