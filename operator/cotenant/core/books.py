"""Ledger and quota usage together: what a placement takes is taken from both, or from neither.

`Books` is the mutable world of one cycle. Everything that holds or releases goes through it, is logged, and can be
undone exactly: `with books.trial() as trial: … trial.keep()`; leaving without `keep` rolls back (KAI-Scheduler's
Statement, as a context manager).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from cotenant.core.inventory import Inventory
from cotenant.core.ledger import Ledger, Take
from cotenant.core.model import WHOLE, GpuGrant, Job, Placement
from cotenant.core.placement import Scorer
from cotenant.core.placement.fitting import fits_exactly
from cotenant.core.placement.gang import Pick
from cotenant.core.placement.room import Room
from cotenant.core.placement.shapes import Shape
from cotenant.core.quota import Bucket, QueueTree
from cotenant.core.usage import Charge, Usage

_NOBODY = -1


@dataclass(frozen=True, slots=True)
class Holding:
    """What one placement takes, in the books' coordinates."""

    takes: tuple[Take, ...]
    charge: Charge


class Books:
    __slots__ = ("_log", "ledger", "room", "usage")

    def __init__(self, ledger: Ledger, usage: Usage, scorer: Scorer) -> None:
        self.ledger = ledger
        self.usage = usage
        self.room = Room(ledger, scorer)
        self._log: list[tuple[Holding, bool]] = []

    def copy(self) -> Books:
        return Books(self.ledger.copy(), self.usage.copy(), self.room.scorer)

    def hold(self, holding: Holding) -> None:
        for take in holding.takes:
            self.ledger.take(take)
        self.usage.charge(holding.charge)
        self._log.append((holding, True))

    def release(self, holding: Holding) -> None:
        for take in holding.takes:
            self.ledger.give(take)
        self.usage.charge(holding.charge, -1)
        self._log.append((holding, False))

    def fits(self, holding: Holding, *, whole: bool) -> bool:
        """Exactly this holding, on top of what is held: room on every GPU and no limit broken."""
        return self.usage.within_limits(holding.charge) and all(
            fits_exactly(self.ledger, take, whole=whole) for take in holding.takes
        )

    def trial(self) -> Trial:
        return Trial(self, len(self._log))

    def back_to(self, mark: int) -> None:
        while len(self._log) > mark:
            holding, held = self._log[-1]
            if held:
                self.release(holding)
            else:
                self.hold(holding)
            del self._log[-2:]

    @property
    def mark(self) -> int:
        return len(self._log)


class Trial:
    """Tentative work on the books: kept only if somebody says so."""

    __slots__ = ("_books", "_kept", "_mark")

    def __init__(self, books: Books, mark: int) -> None:
        self._books, self._mark, self._kept = books, mark, False

    def __enter__(self) -> Trial:
        return self

    def keep(self) -> None:
        self._kept = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._kept:
            self._books.back_to(self._mark)


def holding_of(job: Job, placement: Placement, inventory: Inventory, tree: QueueTree) -> Holding:
    """Nodes and GPUs that no longer exist hold nothing."""
    queue = tree.number.get(job.queue, _NOBODY)
    takes: list[Take] = []
    amounts: dict[Bucket, tuple[int, int]] = {}
    for part in placement.nodes:
        row = inventory.row_of.get(part.node)
        if row is None:
            continue
        zone = inventory.nodes[row].zone
        columns, memory, compute = [], [], []
        for rank in part.ranks:
            for grant in rank.gpus:
                slot = inventory.slot_of.get(grant.uuid)
                if slot is None or slot[0] != row:
                    continue
                kind = inventory.kinds[inventory.kind[slot]]
                columns.append(slot[1])
                memory.append(grant.memory_mib)
                compute.append(grant.compute_milli)
                bucket = (kind.gpu_class, zone)
                milli, mib = amounts.get(bucket, (0, 0))
                amounts[bucket] = (milli + cost_of(grant, kind.memory_mib), mib + grant.memory_mib)
        takes.append(
            Take(
                row=row,
                columns=tuple(columns),
                memory=tuple(memory),
                compute=tuple(compute),
                cpu=job.cpu_milli * len(part.ranks),
                host=job.memory_mib * len(part.ranks),
                tenant=tenant_number(job.queue, tree),
                sharing=job.gpu.sharing,
            )
        )
    charge = Charge(queue, job.user, tuple((bucket, *amounts[bucket]) for bucket in sorted(amounts)))
    return Holding(tuple(takes), charge)


def taken(picks: Sequence[Pick], job: Job, shape: Shape, inventory: Inventory, tree: QueueTree) -> Holding:
    """The holding of picks that are not a placement yet: equal to `holding_of` the placement made of them."""
    takes: list[Take] = []
    amounts: dict[Bucket, tuple[int, int]] = {}
    needs = {number: (*shape.need(kind), kind) for number, kind in enumerate(inventory.kinds)}
    tenant = tenant_number(job.queue, tree)
    for row, workers in picks:
        columns = tuple(column for worker in workers for column in worker)
        memory, compute = [], []
        for column in columns:
            mib, milli, kind = needs[int(inventory.kind[row, column])]
            memory.append(mib)
            compute.append(milli)
            bucket = (kind.gpu_class, inventory.nodes[row].zone)
            before = amounts.get(bucket, (0, 0))
            cost = max(milli, -(-mib * WHOLE // max(1, kind.memory_mib)))
            amounts[bucket] = (before[0] + cost, before[1] + mib)
        takes.append(
            Take(
                row,
                columns,
                tuple(memory),
                tuple(compute),
                job.cpu_milli * len(workers),
                job.memory_mib * len(workers),
                tenant,
                job.gpu.sharing,
            )
        )
    charge = Charge(
        tree.number.get(job.queue, _NOBODY),
        job.user,
        tuple((bucket, *amount) for bucket, amount in sorted(amounts.items())),
    )
    return Holding(tuple(takes), charge)


def cost_of(grant: GpuGrant, memory_mib: int) -> int:
    """Milli-GPU that quotas count for a grant: the larger dimension, rounded up."""
    return max(grant.compute_milli, -(-grant.memory_mib * WHOLE // max(1, memory_mib)))


def tenant_number(queue: str, tree: QueueTree) -> int:
    """Equal for equal queues. Queues that are gone get no new jobs, so one number, nobody's, serves them all."""
    return tree.number.get(queue, len(tree.queues))
