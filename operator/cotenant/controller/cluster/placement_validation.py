"""Validates a committed placement against the spec of its job and what its pods were really given. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.isolation.node_isolation import amounts_by_gpu
from cotenant.core.model.formatting import counted
from cotenant.core.model.objects import Job, Placement


def shape_error(job: Job, placement: Placement) -> str | None:
    """Why the placement does not have the form of any decision about this job; None if it does."""
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


def server_count_error(held: int, asked: int) -> str | None:
    """Error if the number of parameter servers is wrong.

    Attempts of an old release ran servers within the pods of ranks; they have no server pods and are accepted.
    """
    return None if held in {0, asked} else f"it has {counted(held, 'parameter server')}, and the job asks for {asked}"


def pod_contradiction(placement: Placement, pods: Iterable[PodRecord]) -> str | None:
    """How a pod contradicts the placement because it was given something else; None if no pod does."""
    for pod in pods:
        given = pod.worker.placement if pod.worker else None
        if pod.worker is None or given is None or not pod.held:
            continue
        rank = pod.worker.node_rank
        if rank >= len(placement.nodes) or placement.nodes[rank] != given:
            return f"pod {pod.name} was given other GPUs than it names"
    return None


def covers(placement: Placement, pod: PodRecord) -> bool:
    """True if the placement counts at least what this pod holds: the same node, and as much of every GPU."""
    given = pod.worker.placement if pod.worker else None
    if pod.worker is None or given is None or pod.worker.node_rank >= len(placement.nodes):
        return False
    placed = placement.nodes[pod.worker.node_rank]
    counted, held = amounts_by_gpu(placed), amounts_by_gpu(given)
    return placed.node == given.node and all(
        amount <= counted.get(uuid, (0, 0))[index] for uuid, pair in held.items() for index, amount in enumerate(pair)
    )
