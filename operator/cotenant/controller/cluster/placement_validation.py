"""Whether a committed placement can be true: asked before its pods are made, and while they run.

The loop never commits what does not fit. But the status is the store of the plan, and can be edited by whoever may
write one: so what stands there is checked against the GPUs that there are, what others hold of them, the spec,
and what its pods were really given. `World` keeps the books in step with what it tells the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cotenant.controller.informers.pod_record import PodRecord
from cotenant.core.allocation.placements import union_during_resize
from cotenant.core.model.objects import WHOLE, Gpu, GrantedGpu, Job, JobKey, Node, Placement, Sharing


@dataclass(frozen=True, slots=True)
class _Hold:
    memory_mib: int
    compute_milli: int
    queue: str
    sharing: Sharing
    is_orphaned: bool
    """A remainder: what it allowed others is not known any more."""


class GpuHolders:
    """Who holds what of each GPU, by what is committed and by what still runs."""

    def __init__(self) -> None:
        self._holders: dict[str, dict[JobKey, _Hold]] = {}
        """UUID → holder → how much of it."""
        self._placed: dict[JobKey, tuple[str, ...]] = {}

    def set(self, key: JobKey, job: Job | None) -> None:
        """What the job holds now; nothing when it is gone or waits."""
        for uuid in self._placed.pop(key, ()):
            holders = self._holders[uuid]
            del holders[key]
            if not holders:
                del self._holders[uuid]
        if job is None or job.placement is None:
            return
        amounts: dict[str, tuple[int, int]] = {}
        for grant in grants(union_during_resize(job.placement, job.resizing_from)):
            memory, compute = amounts.get(grant.uuid, (0, 0))
            amounts[grant.uuid] = (memory + grant.memory_mib, compute + grant.compute_milli)
        for uuid, (memory, compute) in amounts.items():
            held = _Hold(memory, compute, job.queue, job.gpu.sharing, is_orphaned="#" in key)
            self._holders.setdefault(uuid, {})[key] = held
        self._placed[key] = tuple(amounts)

    def conflict(self, key: JobKey, placement: Placement, nodes: Mapping[str, Node]) -> str:
        """Why the placement, which is in the books, cannot be given its pods; empty when it can."""
        for part in placement.nodes:
            node = nodes.get(part.node)
            if node is None:
                return f"there is no node {part.node} with GPUs"
            gpus = {gpu.uuid: gpu for gpu in node.gpus}
            for uuid in {grant.uuid: None for rank in part.ranks for grant in rank.gpus}:
                gpu = gpus.get(uuid)
                if gpu is None:
                    return f"node {part.node} has no GPU {uuid}"
                if said := self._overcommitment(key, gpu, node):
                    return said
        return ""

    def _overcommitment(self, key: JobKey, gpu: Gpu, node: Node) -> str:
        holders = self._holders.get(gpu.uuid, {})
        memory = sum(held.memory_mib for held in holders.values())
        compute = sum(held.compute_milli for held in holders.values())
        others = ", ".join(sorted(other for other in holders if other != key)) or "nobody else"
        where = f"GPU {gpu.uuid} of node {node.name}"
        if memory > gpu.memory_mib:
            return f"{where} has {gpu.memory_mib} MiB, and {memory} MiB of it would be held (beside it: {others})"
        if compute > WHOLE:
            return f"{where} would be handed out {compute / WHOLE:g} times (beside it: {others})"
        own = holders.get(key)
        for other, held in sorted(holders.items()):
            if own is not None and other != key and not held.is_orphaned and not _may_share(own, held, node):
                return f"{where} is not shared with {other}"
        return ""


def _may_share(one: _Hold, other: _Hold, node: Node) -> bool:
    if Sharing.NEVER in {one.sharing, other.sharing}:
        return False
    return one.queue == other.queue or (
        node.shared_by_queues and one.sharing is Sharing.ANY and other.sharing is Sharing.ANY
    )


def grants(placement: Placement) -> Iterable[GrantedGpu]:
    return (grant for node in placement.nodes for rank in node.ranks for grant in rank.gpus)


def shape_error(job: Job, placement: Placement) -> str:
    """Why no decision about this job could have this form; empty when it may be one."""
    ranks = [rank for node in placement.nodes for rank in node.ranks]
    names = [node.node for node in placement.nodes]
    if [rank.rank for rank in ranks] != list(range(len(ranks))) or not all(node.ranks for node in placement.nodes):
        return "the ranks are not 0, 1, 2 … in the order of the nodes"
    if len(set(names)) < len(names):
        return "a node is named twice"
    if not job.workers_min <= len(ranks) <= job.workers_max:
        return f"it has {len(ranks)} ranks, and the job has {_range(job.workers_min, job.workers_max)} workers"
    for rank in ranks:
        if len({grant.uuid for grant in rank.gpus}) != job.gpu.count or len(rank.gpus) != job.gpu.count:
            return f"rank {rank.rank} has {len(rank.gpus)} GPUs, and the job asks for {job.gpu.count} per worker"
    return ""


def pod_contradiction(placement: Placement, pods: Iterable[PodRecord]) -> str:
    """Which pod was given something else than stands in the placement; empty when none was."""
    for pod in pods:
        given = pod.worker.placement if pod.worker else None
        if pod.worker is None or given is None or not pod.held:
            continue
        rank = pod.worker.node_rank
        if rank >= len(placement.nodes) or placement.nodes[rank] != given:
            return f"pod {pod.name} was given other GPUs than it names"
    return ""


def _range(least: int, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"
