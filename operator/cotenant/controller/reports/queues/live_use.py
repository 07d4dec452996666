"""Current use of GPUs by queue, as the agents see it: memory of its pods, and how busy its GPUs are.

It is unknown whose kernels ran on a GPU that queues share, so its figure counts fully in the mean of each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cotenant.api.resources.gpunodes import GPUNodeStatus
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.telemetry.metrics import Metrics

MIB = 1 << 20


@dataclass(slots=True, kw_only=True)
class LiveUse:
    memory_mib: int = 0
    busy_percent: int = 0
    """Sum over the GPUs that were measured."""
    measured: int = 0


def by_queue(nodes: Iterable[GPUNodeStatus], queue_of: Mapping[str, str]) -> dict[str, LiveUse]:
    """Queue → live use of pods that hold GPUs. `queue_of` maps a job's uid to its queue."""
    found: dict[str, LiveUse] = defaultdict(LiveUse)
    for node in nodes:
        holders = node.holders or ()
        of_pod = {one.pod_uid: queue_of[one.job_uid] for one in holders if one.job_uid in queue_of}
        for gpu in node.gpus:
            for process in gpu.processes:
                if (queue := of_pod.get(process.pod_uid)) is not None:
                    found[queue].memory_mib += process.memory_mib
            busy = gpu.used.utilization_percent if gpu.used else None
            here = (one.pod_uid for one in holders if any(held.uuid == gpu.uuid for held in one.gpus))
            if busy is None:
                continue
            for queue in {of_pod[uid] for uid in here if uid in of_pod}:
                found[queue].busy_percent += busy
                found[queue].measured += 1
    return found


def set_live_gauges(metrics: Metrics, nodes: Iterable[GPUNodeStatus], jobs: Iterable[JobRecord]) -> None:
    """Set the gauges. The series of queues that hold nothing any more are removed."""
    queue_of = {job.uid: job.queue_named for job in jobs if job.queue_named}
    metrics.memory_used.clear()
    metrics.utilization.clear()
    for queue, use in by_queue(nodes, queue_of).items():
        metrics.memory_used.labels(queue).set(use.memory_mib * MIB)
        if use.measured:
            metrics.utilization.labels(queue).set(use.busy_percent / 100 / use.measured)
