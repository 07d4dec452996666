"""Holders of each GPU with their shares, from committed placements and from pods that still run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from cotenant.controller.cluster.foreign.foreign_claims import is_claim
from cotenant.controller.cluster.foreign.foreign_devices import is_devices
from cotenant.controller.isolation.node_isolation import amounts_by_gpu
from cotenant.core.allocation.placements import union_during_resize
from cotenant.core.model.objects import WHOLE, Gpu, Job, JobKey, Node, Sharing

_GpuOfNode: TypeAlias = tuple[str, str]
"""(node, UUID). If two nodes list one UUID, each has its own holders."""


@dataclass(frozen=True, slots=True)
class _Hold:
    memory_mib: int
    compute_milli: int
    queue: str
    sharing: Sharing
    orphaned: bool
    """Holders that are pods without a committed placement. Whether their job allowed sharing is no longer known."""


class GpuHolders:
    def __init__(self) -> None:
        self._of_gpu: dict[_GpuOfNode, dict[JobKey, _Hold]] = {}
        """GPU → (the core's key of the holder → what it holds)."""

    def replace(self, before: Job | None, after: Job | None, *, orphaned: bool = False) -> None:
        """Replace what a job holds: `before` was noted last, `after` is now. None means that the job does not exist."""
        if before == after:
            return
        if before is not None:
            for on in _holds(before, orphaned):
                holders = self._of_gpu[on]
                del holders[before.key]
                if not holders:
                    del self._of_gpu[on]
        if after is not None:
            for on, hold in _holds(after, orphaned).items():
                self._of_gpu.setdefault(on, {})[after.key] = hold

    def conflict(self, job: Job, nodes: Mapping[str, Node]) -> str | None:
        """Why the pods of a committed placement cannot be made, because of other holders; None if they can be."""
        return self._conflict(job, nodes, lambda key: key != job.key)

    def conflict_with_claims(self, job: Job, nodes: Mapping[str, Node]) -> str | None:
        """The same, but only because of ResourceClaims of others, which the kube-scheduler has allocated."""
        return self._conflict(job, nodes, is_claim)

    def held_on(self, node: Node) -> set[str]:
        """UUIDs of the node's GPUs that jobs of Cotenant hold."""
        return {
            gpu.uuid
            for gpu in node.gpus
            if any(not is_devices(key) for key in self._of_gpu.get((node.name, gpu.uuid), ()))
        }

    def _conflict(self, job: Job, nodes: Mapping[str, Node], beside: Callable[[JobKey], bool]) -> str | None:
        own = _holds(job, orphaned=False)
        for part in job.placement.nodes if job.placement else ():
            node = nodes.get(part.node)
            if node is None:
                return f"there is no node {part.node} with GPUs"
            gpus = {gpu.uuid: gpu for gpu in node.gpus}
            for uuid in {grant.uuid: None for rank in part.ranks for grant in rank.gpus}:
                gpu = gpus.get(uuid)
                if gpu is None:
                    return f"node {part.node} has no GPU {uuid}"
                on = (part.node, uuid)
                others = {key: hold for key, hold in self._of_gpu.get(on, {}).items() if beside(key)}
                if conflict := _conflict_on(gpu, node, own[on], others):
                    return conflict
        return None


def _holds(job: Job, orphaned: bool) -> dict[_GpuOfNode, _Hold]:
    """GPU → what the job holds of it, including what it still holds from before a resize."""
    if job.placement is None:
        return {}
    amounts: dict[_GpuOfNode, tuple[int, int]] = {}
    for part in union_during_resize(job.placement, job.resizing_from).nodes:
        for uuid, (memory, compute) in amounts_by_gpu(part).items():
            before = amounts.get((part.node, uuid), (0, 0))
            amounts[part.node, uuid] = (before[0] + memory, before[1] + compute)
    return {
        on: _Hold(memory, compute, job.queue, job.gpu.sharing, orphaned) for on, (memory, compute) in amounts.items()
    }


def _conflict_on(gpu: Gpu, node: Node, own: _Hold, others: Mapping[JobKey, _Hold]) -> str | None:
    memory = own.memory_mib + sum(hold.memory_mib for hold in others.values())
    compute = own.compute_milli + sum(hold.compute_milli for hold in others.values())
    beside = ", ".join(sorted(others)) or "nobody else"
    where = f"GPU {gpu.uuid} of node {node.name}"
    if memory > gpu.memory_mib:
        return f"{where} has {gpu.memory_mib} MiB, and {memory} MiB of it would be held (beside it: {beside})"
    if compute > WHOLE:
        return f"{where} would be handed out {compute / WHOLE:g} times (beside it: {beside})"
    for key, hold in sorted(others.items()):
        if not hold.orphaned and not _may_share(own, hold, node):
            return f"{where} is not shared with {key}"
    return None


def _may_share(one: _Hold, other: _Hold, node: Node) -> bool:
    if Sharing.NEVER in {one.sharing, other.sharing}:
        return False
    return one.queue == other.queue or (
        node.shared_by_queues and one.sharing is Sharing.ANY and other.sharing is Sharing.ANY
    )
