"""GPUs that are kept for bookings: which these are, and who may use them all the same.

Of each booking that is not over, so many GPUs are kept as are granted, less what its queue holds of them already: first
those that were kept in the last cycle, then whole nodes before parts of several. A GPU can be kept where all who hold
it will be *gone in time*: before the booking starts, because they have a `maxRuntime`, or may be evicted for its queue
by then. While it is active, who may be evicted for it counts, whoever holds it.

Kept GPUs are allocated for as long as turns are given, so nobody finds a place there. Two kinds of job do: of the
booking's own queue while it is active, and whoever will be gone in time. So GPUs that were kept once can be kept in
every cycle after, whatever comes, until the booking starts; and then its queue finds them free, or held by jobs that it
may evict. Only nodes that fail, guarantees that grow, and who stays longer than its `maxRuntime`, take that back.

Who *may be evicted for a queue by then*: a job that can be evicted at all, of a queue outside of which the booking's
queue reclaims, to which nothing is guaranteed there: so it cannot come to lie inside a guarantee meanwhile; and whose
protected time is over when the booking starts. A queue that has a booking itself does not count, as it will be
guaranteed something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

import numpy as np

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.gpus.inventory import BoolArray, FloatArray, IntArray
from cotenant.core.gpus.ledger import NodeAllocation
from cotenant.core.model.objects import WHOLE, Job, Sharing
from cotenant.core.model.plan import BookedGpus
from cotenant.core.quota.bookings import BookingStanding, BookingTerms
from cotenant.core.quota.tree import Bucket
from cotenant.core.quota.usage import Charge

_NOTHING = Allocation((), Charge(-1, "", ()))


@dataclass(slots=True, eq=False)
class BookedPlace:
    """GPUs that are kept for one booking."""

    standing: BookingStanding
    allocation: Allocation
    """As if a job held them; of no queue's quota."""
    used: int = 0
    """Milli-GPU of the booking that its queue holds."""

    @property
    def booking(self) -> BookingTerms:
        return self.standing.booking

    @property
    def name(self) -> str:
        return self.booking.name


class BookedPlaces:
    """Places of one cycle. Nothing is kept before `keep`."""

    __slots__ = ("_booked_queues", "_cycle", "_earlier", "places")

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self.places = [
            BookedPlace(one, _NOTHING) for one in cycle.snapshot.bookings if one.gpus and self._is_known(one.booking)
        ]
        self._earlier: Mapping[str, frozenset[tuple[str, str]]] = {
            name: frozenset(gpus) for name, gpus in cycle.snapshot.booked
        }
        paths = (cycle.tree.paths[cycle.tree.index[place.booking.queue]] for place in self.places)
        self._booked_queues = frozenset(queue for path in paths for queue in path)

    def __bool__(self) -> bool:
        return bool(self.places)

    def keep(self) -> None:
        """Take the GPUs that are kept for each, soonest first: from now on nobody finds a place there."""
        for place in sorted(self.places, key=lambda one: (one.booking.starts_at, one.booking.since, one.name)):
            self._keep(place)

    def found(self) -> dict[str, BookedGpus]:
        """Places by the name of each booking, in order."""
        ordered = sorted(self.places, key=lambda one: one.name)
        return {place.name: BookedGpus(_named(self._cycle, place.allocation), place.used) for place in ordered}

    def endings(self) -> Iterator[tuple[float, str, Allocation]]:
        """(when, name, what is not kept any more), as jobs give back what they hold."""
        yield from ((place.booking.ends_at, place.name, place.allocation) for place in self.places)

    @contextmanager
    def opened_to(self, queue: int) -> Iterator[None]:
        """Let a job of this queue find its place on what is kept for it, and keep what is left of it after."""
        own = [one for one in self.places if self.is_active(one.booking) and self._is_of(queue, one.booking)]
        for place in own:
            self.give_back(place)
        try:
            yield
        finally:
            for place in own:
                self._keep(place)

    def give_back(self, place: BookedPlace) -> Allocation:
        """Keep nothing for the booking any more. Returns what was kept for it."""
        kept, place.allocation = place.allocation, _NOTHING
        self._cycle.accounts.release(kept)
        return kept

    def is_active(self, booking: BookingTerms) -> bool:
        """Its time has come. None of those that are over is here."""
        self._cycle.moment.has_come(booking.ends_at)
        return self._cycle.moment.has_come(booking.starts_at)

    def admits(self, place: BookedPlace, job: Job, request: Request) -> bool:
        """The job, which waits, will be gone in time."""
        moment, booking = self._cycle.moment, place.booking
        active = self.is_active(booking)
        if job.max_runtime_s is not None and not active and not moment.is_past(booking.starts_at - job.max_runtime_s):
            return True
        buckets = {bucket for option in request.options for bucket in option.buckets}
        if not self._yields_to(booking, job, request.queue, buckets):
            return False
        return active or not moment.is_past(booking.starts_at - self._protected_s(request.queue))

    def concerns(self, place: BookedPlace, request: Request) -> bool:
        """The request could lie on such GPUs."""
        gpu_class, zone = place.booking.scope
        buckets = (bucket for option in request.options for bucket in option.buckets)
        return any(bucket[0] == gpu_class and zone in (None, bucket[1]) for bucket in buckets)

    def is_behind(self, request: Request) -> bool:
        """GPUs on which it could lie are kept for others."""
        return any(self.concerns(place, request) and not self.is_of(place, request.queue) for place in self.places)

    def is_of(self, place: BookedPlace, queue: int) -> bool:
        """It is kept for the queue, or for one above."""
        return self._is_of(queue, place.booking)

    def _is_known(self, booking: BookingTerms) -> bool:
        tree = self._cycle.tree
        return booking.queue in tree.index and booking.queue not in tree.broken

    def _is_of(self, queue: int, booking: BookingTerms) -> bool:
        """It is the queue of the booking, or below it."""
        tree = self._cycle.tree
        return tree.index[booking.queue] in tree.paths[queue]

    def _yields_to(self, booking: BookingTerms, job: Job, queue: int | None, buckets: Iterable[Bucket]) -> bool:
        """The job may be evicted for the booking's queue, whoever else comes and goes."""
        tree = self._cycle.tree
        if not job.preemptible or queue is None:
            return False
        fork = tree.below_common_ancestor(tree.index[booking.queue], queue)
        if fork is None or fork[1] in self._booked_queues:
            return False
        own, other = fork
        if own != tree.index[booking.queue] and not tree.quotas_of[own]:
            return False  # it only groups, and reclaims nothing
        guaranteeing = [line for line in tree.quotas_of[other] if line.quota.guaranteed]
        return not any(line.matches(bucket) for bucket in buckets for line in guaranteeing)

    def _protected_s(self, queue: int) -> int:
        """Seconds from its start for which a job of the queue is not evicted."""
        return max(self._cycle.policy.protected_runtime_s, self._cycle.tree.queues[queue].protected_runtime_s)

    def _keep(self, place: BookedPlace) -> None:
        gone_at, own, used = self._holders(place.booking)
        place.used = min(used, place.standing.gpus * WHOLE)
        wanted = -(-(place.standing.gpus * WHOLE - used) // WHOLE)
        if wanted <= 0:
            return
        free = self._may_be_kept(place, gone_at, own)
        place.allocation = self._allocation(self._choose(place, free, gone_at, wanted))
        self._cycle.accounts.allocate(place.allocation)

    def _holders(self, booking: BookingTerms) -> tuple[FloatArray, BoolArray, int]:
        """([N, G] when the last of other queues is gone, [N, G] the queue holds something there, milli-GPU of the
        booking that it holds)."""
        cycle, shape = self._cycle, self._cycle.inventory.kind.shape
        gone_at, own, used = np.full(shape, -inf), np.zeros(shape, dtype=np.bool_), 0
        scope = self._scope(booking)
        now = cycle.moment.at  # who starts in a decision makes it one that is not kept
        begun = [(job, allocation, now) for job, allocation in (*cycle.started, *cycle.nominated)]
        running = (
            (job, cycle.running.allocations[key], job.admitted_at) for key, job in cycle.running.by_key.items()
        )  # fmt: skip
        for job, allocation, since in (*running, *begun):
            if not any(bucket[0] == booking.gpu_class for bucket, _, _ in allocation.charge.amounts):
                continue
            leaves = job.evicting or cycle.outcome.touches(job.key)
            queue = cycle.tree.index.get(job.queue)
            is_own = queue is not None and self._is_of(queue, booking)
            until = -inf if is_own or leaves else self._gone_at(booking, job, allocation, since)
            for node in allocation.nodes:
                for column, compute in zip(node.columns, node.compute_milli, strict=True):
                    if not scope[node.row, column]:
                        continue
                    gone_at[node.row, column] = max(gone_at[node.row, column], until)
                    if is_own and not leaves:
                        own[node.row, column] = True
                        used += compute
        return gone_at, own, used

    def _gone_at(self, booking: BookingTerms, job: Job, allocation: Allocation, since: float | None) -> float:
        """When the job has ended or may be evicted at the latest; infinity: never, as far as is sure."""
        if since is None:
            return inf
        ends = inf if job.max_runtime_s is None else since + job.max_runtime_s
        queue = self._cycle.tree.index.get(job.queue)
        buckets = [bucket for bucket, _, _ in allocation.charge.amounts]
        if queue is not None and self._yields_to(booking, job, queue, buckets):
            ends = min(ends, since + self._protected_s(queue))
        return ends

    def _scope(self, booking: BookingTerms) -> BoolArray:
        """[N, G] GPUs of the class in the zone that take work."""
        inventory = self._cycle.inventory
        kinds = [number for number, kind in enumerate(inventory.kinds) if kind.gpu_class == booking.gpu_class]
        found: BoolArray = inventory.usable & np.isin(inventory.kind, kinds)
        if booking.zone is not None:
            zones = [number for number, zone in enumerate(inventory.zones) if zone == booking.zone]
            found &= np.isin(inventory.zone, zones)[:, None]
        return found

    def _may_be_kept(self, place: BookedPlace, gone_at: FloatArray, own: BoolArray) -> BoolArray:
        """[N, G] GPUs that can be the booking's when it starts, or soon where it has."""
        booking, cycle = place.booking, self._cycle
        latest = inf if self.is_active(booking) else booking.starts_at
        found: BoolArray = self._scope(booking) & (gone_at <= latest) & (gone_at < inf)
        found &= ~(own & (cycle.accounts.current.ledger.free_compute <= 0))
        for other in self.places:
            if other is not place and other.booking.overlaps(booking):
                for node in other.allocation.nodes:
                    found[node.row, list(node.columns)] = False
        return found

    def _choose(self, place: BookedPlace, free: BoolArray, gone_at: FloatArray, wanted: int) -> list[tuple[int, int]]:
        """(row, column) of so many GPUs: those of the last cycle first, then whole nodes, those who are free sooner
        first."""
        inventory, found = self._cycle.inventory, list[tuple[int, int]]()
        for gpu in sorted(self._earlier.get(place.name, ())):
            at = inventory.slot_of.get(gpu)
            if at is not None and free[at] and len(found) < wanted:
                found.append(at)
                free[at] = False
        per_node: IntArray = free.sum(axis=1)
        while len(found) < wanted and per_node.any():
            missing = wanted - len(found)
            enough = np.flatnonzero(per_node >= missing)
            row = int(enough[np.argmin(per_node[enough])] if len(enough) else np.argmax(per_node))
            columns = sorted(np.flatnonzero(free[row]).tolist(), key=lambda column: (gone_at[row, column], column))
            found += [(row, column) for column in columns[:missing]]
            per_node[row] = 0
        return sorted(found)

    def _allocation(self, gpus: Iterable[tuple[int, int]]) -> Allocation:
        """All of each GPU, and of its node's free CPU and memory as much as falls to the GPUs that nobody holds."""
        inventory, ledger = self._cycle.inventory, self._cycle.accounts.current.ledger
        by_row: dict[int, list[int]] = {}
        for row, column in gpus:
            by_row.setdefault(row, []).append(column)
        nodes = []
        for row, columns in by_row.items():
            unheld = sum(1 for column in columns if ledger.holders[row, column] == 0)
            slots = max(1, int((inventory.kind[row] >= 0).sum()))
            nodes.append(
                NodeAllocation(
                    row=row,
                    columns=tuple(columns),
                    memory_mib=tuple(int(inventory.memory_mib[row, column]) for column in columns),
                    compute_milli=(WHOLE,) * len(columns),
                    cpu_milli=_part(int(inventory.cpu_milli[row]), int(ledger.free_cpu[row]), unheld, slots),
                    host_mib=_part(int(inventory.host_mib[row]), int(ledger.free_host[row]), unheld, slots),
                    tenant=len(self._cycle.tree.queues),
                    sharing=Sharing.NEVER,
                )
            )
        return Allocation(tuple(nodes), _NOTHING.charge)


def _part(total: int, free: int, part: int, of: int) -> int:
    return max(0, min(total * part // of, free))


def _named(cycle: Cycle, allocation: Allocation) -> tuple[tuple[str, str], ...]:
    inventory = cycle.inventory
    return tuple(
        (inventory.nodes[node.row].name, inventory.uuids[node.row][column])
        for node in allocation.nodes
        for column in node.columns
    )
