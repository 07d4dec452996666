"""Validates a committed placement, before its pods are made and while they run.

The loop never commits what does not fit. But the status is the store of the plan, and can be edited by everyone who may
write one: so what stands there is checked against the GPUs that there are, what others hold of them, the spec,
and what its pods were really given.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.controller.cluster.core_jobs import CoreJobs
from cotenant.controller.cluster.gpu_holders import GpuHolders
from cotenant.controller.cluster.nodes import ClusterNodes
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.pod_record import PodRecord
from cotenant.core.model.formatting import counted
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import Job, NodePlacement, Placement


class PlacementValidator:
    def __init__(self, cache: ObjectCache, nodes: ClusterNodes, gpu_holders: GpuHolders, core_jobs: CoreJobs) -> None:
        self._pods = cache.pods
        self._nodes = nodes
        self._gpu_holders = gpu_holders
        self._core_jobs = core_jobs

    def error(self, record: JobRecord, now: float) -> str | None:
        """Error of a committed placement, such as no decision of the loop would have.

        Whether it fits beside other jobs is checked only as long as pods have to be made for it, and beside
        ResourceClaims of others until all its pods are bound: then the kube-scheduler has let them have it.
        """
        placement = record.placement
        if placement is None or record.phase not in {Phase.STARTING, Phase.RUNNING}:
            return None
        if self._core_jobs.gave_back(record):
            return "nothing of it ran any more while its status could not be written, and its room was given back"
        gang = [pod for pod in self._pods.of_job(record.id).values() if pod.is_of(record.status.attempts)]
        spec = self._core_jobs.reading(record, now).job
        mismatch = (shape_error(spec, placement) or server_count_error(record)) if spec else None
        if error := mismatch or pod_contradiction(placement, gang):
            return error
        ranks = [pod for pod in gang if pod.worker and not pod.worker.server]
        complete = len(ranks) >= len(placement.nodes)
        if record.phase is Phase.RUNNING or (complete and all(pod.node for pod in ranks)):
            return None
        job = self._core_jobs.job(record, now)
        if job is None:
            return None
        judge = self._gpu_holders.conflict_with_claims if complete else self._gpu_holders.conflict
        return judge(job, self._nodes.known())


def shape_error(job: Job, placement: Placement) -> str | None:
    """Reason why no decision about this job could have this form."""
    ranks = [rank for node in placement.nodes for rank in node.ranks]
    names = [node.node for node in placement.nodes]
    if [rank.rank for rank in ranks] != list(range(len(ranks))) or not all(node.ranks for node in placement.nodes):
        return "the ranks are not 0, 1, 2 … in the order of the nodes"
    if len(set(names)) < len(names):
        return "a node is named twice"
    if not job.workers_min <= len(ranks) <= job.workers_max:
        workers = f"{job.workers_min} to {job.workers_max}" if job.workers_min < job.workers_max else job.workers_min
        return f"it has {len(ranks)} ranks, and the job has {workers} workers"
    for rank in ranks:
        if len({grant.uuid for grant in rank.gpus}) != job.gpu.count or len(rank.gpus) != job.gpu.count:
            return f"rank {rank.rank} has {len(rank.gpus)} GPUs, and the job asks for {job.gpu.count} per worker"
    return None


def server_count_error(record: JobRecord) -> str | None:
    """An attempt of a version that put servers into the pods of the ranks has none of their own, and is left alone."""
    held = (record.status.placement.servers or 0) if record.status.placement else 0
    if held in {0, record.servers}:
        return None
    return f"it has {counted(held, 'parameter server')}, and the job asks for {record.servers}"


def pod_contradiction(placement: Placement, pods: Iterable[PodRecord]) -> str | None:
    """Which pod was given something else than stands in the placement."""
    for pod in pods:
        given = pod.worker.placement if pod.worker else None
        if pod.worker is None or given is None or not pod.held:
            continue
        rank = pod.worker.node_rank
        if rank >= len(placement.nodes) or placement.nodes[rank] != given:
            return f"pod {pod.name} was given other GPUs than it names"
    return None


def covers(placement: Placement, pod: PodRecord) -> bool:
    """The placement counts at least what this pod holds: on the same node, of every GPU as much."""
    given = pod.worker.placement if pod.worker else None
    if pod.worker is None or given is None or pod.worker.node_rank >= len(placement.nodes):
        return False
    placed = placement.nodes[pod.worker.node_rank]
    counted, held = _amounts(placed), _amounts(given)
    return placed.node == given.node and all(
        amount <= counted.get(uuid, (0, 0))[index] for uuid, pair in held.items() for index, amount in enumerate(pair)
    )


def _amounts(placement: NodePlacement) -> dict[str, tuple[int, int]]:
    """UUID → MiB and milli-GPU of compute, all ranks together."""
    amounts: dict[str, tuple[int, int]] = {}
    for rank in placement.ranks:
        for gpu in rank.gpus:
            memory, compute = amounts.get(gpu.uuid, (0, 0))
            amounts[gpu.uuid] = (memory + gpu.memory_mib, compute + gpu.compute_milli)
    return amounts
