"""Jobs that stand in, for the core, for pods that no committed placement covers. Pure.

A pod that may still run holds its GPUs whatever has become of its job. Where no committed placement covers it (the job
was deleted, has finished, or has left a dead node behind) an *orphaned allocation* stands in: a job that is leaving,
read from the spec of its pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.core.model.objects import GpuRequest, Job, JobKey, Placement


def orphaned_allocations(pods: Iterable[PodRecord], job: JobId, queue: str) -> dict[JobKey, Job]:
    """One for each attempt of the job that these pods, which nothing covers, are left of; its queue is charged."""
    attempts: dict[JobKey, list[PodRecord]] = {}
    for pod in pods:
        if pod.held and pod.worker and pod.worker.placement:
            key = f"{job.key}#{job.uid}-{pod.worker.attempt}"  # apart from the job's own, and from its namesakes
            attempts.setdefault(key, []).append(pod)
    return {key: _orphaned_allocation(key, left, queue) for key, left in attempts.items()}


def _orphaned_allocation(key: JobKey, pods: list[PodRecord], queue: str) -> Job:
    ordered = sorted(pods, key=lambda pod: pod.worker.node_rank if pod.worker else 0)
    nodes = tuple(pod.worker.placement for pod in ordered if pod.worker and pod.worker.placement)
    placement = Placement(nodes=nodes)
    workers = max(1, placement.workers)
    return Job(
        key=key,
        uid=ordered[0].worker.job.uid if ordered[0].worker else "",
        namespace=ordered[0].namespace,
        queue=queue,
        workers_min=workers,
        workers_max=workers,
        gpu=GpuRequest(),
        cpu_milli=sum(pod.cpu_milli for pod in ordered) // workers,
        memory_mib=sum(pod.memory_mib for pod in ordered) // workers,
        submitted_at=0.0,
        placement=placement,
        admitted_at=0.0,
        preemptible=False,
        evicting=True,
    )
