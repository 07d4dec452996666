"""The observed cluster, counted: kept up to date fact by fact, so that a cycle does not count every job again.

`AccountingCache` follows the facts; `Accounting` is the immutable copy that a snapshot carries. `Accounting.of` counts
a bare snapshot, with equal numbers (a property test holds that). If nodes or queues are new, everything is counted
again; if a node only changes its free CPU, health or readiness, the inventory is patched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.placements import union_during_resize
from cotenant.core.gpus.inventory import GpuKind, Inventory
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Job, JobKey, Node, TenantQueue
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage


@dataclass(frozen=True, slots=True, eq=False)
class Accounting:
    """Inventory, quotas and what is held of both, at one moment. Never written: a cycle works on copies."""

    inventory: Inventory
    tree: QueueTree
    ledger: Ledger
    usage: Usage
    allocations: Mapping[JobKey, Allocation]
    running: Mapping[JobKey, Job]
    """This and `allocations` are the same objects as before if no running job has changed."""
    pending: tuple[Job, ...]
    content: object
    """The same object in accountings of equal content. When running jobs last saved their work does not count."""

    @classmethod
    def of(cls, nodes: Iterable[Node], queues: Iterable[TenantQueue], jobs: Iterable[Job]) -> Accounting:
        return AccountingCache().accounting(tuple(nodes), tuple(queues), tuple(jobs))


class AccountingCache:
    def __init__(self) -> None:
        self._inventory = Inventory.of(())
        self._tree = QueueTree.of((), self._inventory)
        self._ledger = Ledger(self._inventory)
        self._usage = Usage(self._tree)
        self._allocations: dict[JobKey, Allocation] = {}
        self._running: dict[JobKey, Job] = {}
        self._pending: dict[JobKey, Job] = {}
        self._stale = True
        self._changed_nodes: dict[str, Node] = {}
        self._held: tuple[dict[JobKey, Job], dict[JobKey, Allocation]] | None = None
        """Copies of running jobs and allocations, given out since either changed last."""
        self._content = object()
        self._copy: Accounting | None = None
        """Given out since anything was counted last."""

    @property
    def usage(self) -> Usage:
        """Usage at this moment; it moves with the next fact."""
        return self._usage

    def allocation(self, key: JobKey) -> Allocation | None:
        return self._allocations.get(key)

    def update_node(self, node: Node | None, before: Node | None) -> None:
        if node == before:
            return
        if node is None or before is None or not _same_gpus(node, before):
            self._stale = True
        else:
            self._changed_nodes[node.name] = node
        self._note_change()

    def invalidate(self) -> None:
        self._stale = True
        self._note_change()

    def update_job(self, job: Job | None, before: Job | None) -> None:
        """A job changed, appeared (no `before`) or went away (no `job`)."""
        if self._stale or job == before:
            return
        if job is not None and before is not None and _holds_the_same(job, before):
            self._running[job.key] = job
            self._copy = self._held = None
            return
        self._note_change()
        if before is not None:
            self._drop(before)
        if job is not None:
            self._add(job)

    def refresh(self, nodes: Iterable[Node], queues: Iterable[TenantQueue], jobs: Iterable[Job]) -> None:
        """Bring the accounting up to date: count again if nodes or queues are new, else apply what changed on nodes."""
        if self._stale:
            self._recount(nodes, queues, jobs)
        elif self._changed_nodes:
            self._patch_nodes(queues)

    def accounting(self, nodes: Iterable[Node], queues: Iterable[TenantQueue], jobs: Iterable[Job]) -> Accounting:
        """An immutable copy, up to date."""
        self.refresh(nodes, queues, jobs)
        if self._copy is None:
            self._copy = self._new_copy()
        return self._copy

    def _note_change(self) -> None:
        self._content, self._copy = object(), None

    def _new_copy(self) -> Accounting:
        if self._held is None:
            self._held = self._running.copy(), self._allocations.copy()
        running, allocations = self._held
        return Accounting(
            inventory=self._inventory,
            tree=self._tree,
            ledger=self._ledger.copy(),
            usage=self._usage.copy(),
            allocations=allocations,
            running=running,
            pending=tuple(self._pending.values()),
            content=self._content,
        )

    def _recount(self, nodes: Iterable[Node], queues: Iterable[TenantQueue], jobs: Iterable[Job]) -> None:
        self._inventory = Inventory.of(nodes)
        self._tree = QueueTree.of(queues, self._inventory)
        self._ledger, self._usage = Ledger(self._inventory), Usage(self._tree)
        self._allocations, self._running, self._pending = {}, {}, {}
        self._held = None
        self._changed_nodes, self._stale = {}, False
        for job in jobs:
            self._add(job)

    def _patch_nodes(self, queues: Iterable[TenantQueue]) -> None:
        """Same GPUs, other amounts: the ledger moves by the difference."""
        before = self._inventory
        self._inventory = before.patched(self._changed_nodes.values())
        self._ledger = self._ledger.with_inventory(self._inventory)
        self._changed_nodes = {}
        if (before.usable != self._inventory.usable).any():
            self._tree = QueueTree.of(queues, self._inventory)
            self._usage = self._usage.with_tree(self._tree)

    def _add(self, job: Job) -> None:
        if job.placement is None:
            self._pending[job.key] = job
            return
        self._running[job.key] = job
        self._held = None
        allocation = allocation_of(
            job, union_during_resize(job.placement, job.resizing_from), self._inventory, self._tree
        )
        self._allocations[job.key] = allocation
        for node in allocation.nodes:
            self._ledger.allocate(node)
        self._usage.add(allocation.charge)
        del self._ledger.changed_rows[:]

    def _drop(self, job: Job) -> None:
        self._pending.pop(job.key, None)
        if self._running.pop(job.key, None) is not None:
            self._held = None
        allocation = self._allocations.pop(job.key, None)
        if allocation is not None:
            for node in allocation.nodes:
                self._ledger.release(node)
            self._usage.add(allocation.charge, -1)
            del self._ledger.changed_rows[:]


def _same_gpus(node: Node, other: Node) -> bool:
    """Equal GPUs at equal places: only amounts and health differ."""
    return (node.zone, node.rack) == (other.zone, other.rack) and [
        (gpu.uuid, gpu.index, GpuKind.of(gpu), gpu.peers) for gpu in node.gpus
    ] == [(gpu.uuid, gpu.index, GpuKind.of(gpu), gpu.peers) for gpu in other.gpus]


def _holds_the_same(job: Job, before: Job) -> bool:
    """True if a running job differs only in when it last saved its work."""
    return job.placement is not None and replace(before, last_checkpoint_at=job.last_checkpoint_at) == job
