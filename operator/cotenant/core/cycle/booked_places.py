"""GPUs that are kept for bookings: which GPUs, and which jobs may use them nevertheless.

For each booking that is not over, as many GPUs are kept as it is granted, less those that its queue holds already. GPUs
that were kept in the last cycle come first, then whole nodes before parts of several nodes. A GPU can be kept only if
every job that holds it will be *gone in time*: before the booking starts, because it has a `maxRuntime` or may be
evicted for the booking's queue by then. Once the booking is active, only the second counts.

Kept GPUs are allocated while turns are given, so jobs find no place there, with two exceptions: jobs of the booking's
own queue while it is active, and jobs that will be gone in time. So a GPU that was kept once can be kept in every later
cycle until the booking starts. Then the queue finds it free, or held by a job that it may evict. This fails only if a
node fails, a guarantee grows, or a job runs longer than its `maxRuntime`.

A job *may be evicted for the booking's queue by then* if all of this holds: it is preemptible; the booking's queue may
reclaim from its queue; its queue is guaranteed nothing there, so that the job cannot come to lie inside a guarantee;
its protected time is over when the booking starts. Jobs of a queue that has a booking itself never count, because their
queue will be guaranteed something.
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
from cotenant.core.quota.bookings import BookingTerms
from cotenant.core.quota.tree import Bucket
from cotenant.core.quota.usage import Charge

_NOTHING = Allocation((), Charge(-1, "", ()))


@dataclass(slots=True, eq=False)
class BookedPlace:
    """GPUs that are kept for one booking."""

    booking: BookingTerms
    gpus: int
    """Granted to it."""
    allocation: Allocation
    """Held as if by a job, but charged to no queue's quota."""
    used: int = 0
    """Milli-GPU of the booking that its queue holds."""


class BookedPlaces:
    """Places kept for bookings in one cycle; none before `keep` is called."""

    __slots__ = ("_booked_queues", "_cycle", "_earlier", "places")

    def __init__(self, cycle: Cycle) -> None:
        self._cycle, tree = cycle, cycle.tree
        self.places = [
            BookedPlace(one.booking, one.gpus, _NOTHING)
            for one in cycle.snapshot.bookings
            if one.gpus and one.booking.queue in tree.index and one.booking.queue not in tree.broken
        ]
        self._earlier: Mapping[str, frozenset[tuple[str, str]]] = {
            name: frozenset(gpus) for name, gpus in cycle.snapshot.booked
        }
        paths = (tree.paths[tree.index[place.booking.queue]] for place in self.places)
        self._booked_queues = frozenset(queue for path in paths for queue in path)

    def keep(self) -> None:
        """Allocate the GPUs that are kept for each booking, soonest first, so that jobs find no place there."""
        for place in sorted(self.places, key=lambda one: (one.booking.starts_at, one.booking.since, one.booking.name)):
            self._keep(place)

    def found(self) -> dict[str, BookedGpus]:
        """Name of a booking → what is kept for it and used of it, in order of name."""
        ordered = sorted(self.places, key=lambda one: one.booking.name)
        return {place.booking.name: BookedGpus(_named(self._cycle, place.allocation), place.used) for place in ordered}

    def endings(self) -> Iterator[tuple[float, str, Allocation]]:
        """(when, booking, what is no longer kept for it then), in the form of the endings of jobs."""
        yield from ((place.booking.ends_at, place.booking.name, place.allocation) for place in self.places)

    @contextmanager
    def opened_to(self, queue: int) -> Iterator[None]:
        """Open the GPUs kept for this queue to its job; afterwards keep again what is still needed."""
        own = [one for one in self.places if self.is_active(one.booking) and self.is_of(one, queue)]
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
        """True if the booking has started. Bookings that are over are not among the places."""
        self._cycle.moment.has_come(booking.ends_at)
        return self._cycle.moment.has_come(booking.starts_at)

    def admits(self, place: BookedPlace, job: Job, request: Request) -> bool:
        """True if this waiting job, started now, will be gone in time."""
        moment, booking = self._cycle.moment, place.booking
        active = self.is_active(booking)
        if job.max_runtime_s is not None and not active and not moment.is_past(booking.starts_at - job.max_runtime_s):
            return True
        buckets = {bucket for option in request.options for bucket in option.buckets}
        if not self._yields_to(booking, job, request.queue, buckets):
            return False
        return active or not moment.is_past(booking.starts_at - self._cycle.rules.protected_in(request.queue))

    def concerns(self, place: BookedPlace, request: Request) -> bool:
        """True if the request could be placed on GPUs of the booking's class and zone."""
        gpu_class, zone = place.booking.scope
        buckets = (bucket for option in request.options for bucket in option.buckets)
        return any(bucket[0] == gpu_class and zone in (None, bucket[1]) for bucket in buckets)

    def is_behind(self, request: Request) -> bool:
        """True if GPUs that could serve the request are kept for other queues."""
        return any(self.concerns(place, request) and not self.is_of(place, request.queue) for place in self.places)

    def is_of(self, place: BookedPlace, queue: int) -> bool:
        """True if the place is kept for this queue, or for a queue above it."""
        tree = self._cycle.tree
        return tree.index[place.booking.queue] in tree.paths[queue]

    def _yields_to(self, booking: BookingTerms, job: Job, queue: int | None, buckets: Iterable[Bucket]) -> bool:
        """True if the job may be evicted for the booking's queue, whatever other jobs come and go."""
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

    def _keep(self, place: BookedPlace) -> None:
        gone_at, own, used = self._holders(place)
        place.used = min(used, place.gpus * WHOLE)
        wanted = -(-(place.gpus * WHOLE - used) // WHOLE)
        if wanted <= 0:
            return
        free = self._may_be_kept(place, gone_at, own)
        place.allocation = self._allocation(self._choose(place, free, gone_at, wanted))
        self._cycle.accounts.allocate(place.allocation)

    def _holders(self, place: BookedPlace) -> tuple[FloatArray, BoolArray, int]:
        """([N, G] when the last job of other queues is gone, [N, G] whether the booking's queue holds something there,
        milli-GPU of the booking that this queue holds)."""
        cycle, shape, booking = self._cycle, self._cycle.inventory.kind.shape, place.booking
        gone_at, own, used = np.full(shape, -inf), np.zeros(shape, dtype=np.bool_), 0
        scope = self._scope(booking)
        now = cycle.moment.at  # who starts in a decision makes it one that is not kept
        begun = [(job, allocation, now) for job, allocation in (*cycle.started, *cycle.nominated)]
        running = (
            (job, cycle.running.allocations[key], job.admitted_at) for key, job in cycle.running.by_key.items()
        )  # fmt: skip
        for job, allocation, since in (*running, *begun):
            if not any(bucket[0] == booking.gpu_class for bucket, _ in allocation.charge.amounts):
                continue
            leaves = job.evicting or cycle.outcome.touches(job.key)
            queue = cycle.tree.index.get(job.queue)
            is_own = queue is not None and self.is_of(place, queue)
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
        """When the job will have ended or may be evicted, at the latest; infinity if nothing ensures it."""
        if since is None:
            return inf
        ends = inf if job.max_runtime_s is None else since + job.max_runtime_s
        queue = self._cycle.tree.index.get(job.queue)
        buckets = [bucket for bucket, _ in allocation.charge.amounts]
        if queue is not None and self._yields_to(booking, job, queue, buckets):
            ends = min(ends, since + self._cycle.rules.protected_in(queue))
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
        """[N, G] GPUs that can be free for the booking when it starts, or soon if it has started."""
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
        """(row, column) of so many GPUs: those of the last cycle first, then whole nodes; on a node those that are free
        sooner."""
        inventory, found = self._cycle.inventory, list[tuple[int, int]]()
        for gpu in sorted(self._earlier.get(place.booking.name, ())):
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
        """All of each GPU; and of its node's free CPU, memory and scratch space, a proportional part for each kept GPU
        that nobody holds."""
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
                    scratch_mib=_part(int(inventory.scratch_mib[row]), int(ledger.free_scratch[row]), unheld, slots),
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
