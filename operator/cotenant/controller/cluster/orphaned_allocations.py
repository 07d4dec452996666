"""Stand-ins for pods without a committed placement, as jobs of the core. Pure.

A pod that may still run holds its GPUs, even if its job was deleted, has finished, or was placed anew after its node
died. For such a pod an *orphaned allocation* stands in: a job that is leaving, read from the specs of its pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.manifests.attempt import HostAmounts
from cotenant.core.model.objects import GpuRequest, Job, JobKey, Placement


def orphaned_allocations(pods: Iterable[PodRecord], job: JobId, queue: str) -> dict[JobKey, Job]:
    """One allocation for each attempt of the job with such pods. The job's queue is charged."""
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
    # The pod of rank 0 may ask for more than its ranks would alone: then it is a chief's.
    head = ordered[0] if nodes[0].ranks and nodes[0].ranks[0].rank == 0 else None
    equal = ordered[1:] if head and ordered[1:] else ordered
    ranks = max(1, sum(len(node.ranks) for node in nodes[-len(equal) :]))
    each = HostAmounts(*(sum(amounts) // ranks for amounts in zip(*map(_written, equal), strict=True)))
    first, beside = _written(head) if head else None, len(nodes[0].ranks) - 1
    return Job(
        key=key,
        uid=ordered[0].worker.job.uid if ordered[0].worker else "",
        namespace=ordered[0].namespace,
        queue=queue,
        workers_min=workers,
        workers_max=workers,
        gpu=GpuRequest(),
        cpu_milli=each.cpu_milli,
        memory_mib=each.memory_mib,
        scratch_mib=each.scratch_mib,
        chief_cpu_milli=first.cpu_milli - beside * each.cpu_milli if first else None,
        chief_memory_mib=first.memory_mib - beside * each.memory_mib if first else None,
        chief_scratch_mib=first.scratch_mib - beside * each.scratch_mib if first else None,
        submitted_at=0.0,
        placement=placement,
        admitted_at=0.0,
        preemptible=False,
        evicting=True,
    )


def _written(pod: PodRecord) -> HostAmounts:
    """What the operator requested. What admission added is counted at the node."""
    return pod.requests.beyond(pod.added)
