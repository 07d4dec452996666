"""Bookings in a play: they begin and end by the clock, and GPUs are kept for them as a decision keeps them.

A decision chooses the kept GPUs again in every cycle. A play does so only if the choice may differ: a job of the
booking's queue came or went, or a job gave back GPUs of the class while fewer are kept than are granted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.cycle.booked_places import BookedPlace, BookedPlaces
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.model.objects import WHOLE, Job, TenantQueue
from cotenant.core.quota.bookings import BookingStanding, capacity_of, with_bookings
from cotenant.core.snapshot.snapshot import Snapshot


class BookingCalendar:
    """Moments after the snapshot at which bookings begin or end, and the quotas of queues from each of them on."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._bookings = tuple(one.booking for one in snapshot.bookings)
        self._queues = {queue.name: queue for queue in snapshot.unbooked or snapshot.queues}
        self._capacity = capacity_of(snapshot.nodes if self._bookings else ())
        changes = {at for one in self._bookings for at in (one.starts_at, one.ends_at) if at > snapshot.now}
        self._changes = sorted(changes, reverse=True)

    @property
    def next_change(self) -> float | None:
        return self._changes[-1] if self._changes else None

    def turn(self) -> tuple[tuple[TenantQueue, ...], tuple[BookingStanding, ...]]:
        """Go on to the next change. Returns the queues from then on, and the standings of bookings that are not
        over."""
        queues, standings = with_bookings(self._queues, self._bookings, self._capacity, self._changes.pop())
        return tuple(queues.values()), standings


class PlayedBookings(BookedPlaces):
    """Bookings of a play, between two changes of the calendar."""

    __slots__ = ("_has_chosen", "_is_stale")

    def __init__(self, cycle: Cycle, before: PlayedBookings | None = None) -> None:
        """`before`: those until the last change, cleared. GPUs that were kept for them are preferred."""
        super().__init__(cycle)
        self._is_stale, self._has_chosen = True, False
        if before is not None:
            self._earlier = before._earlier

    def follow(self, cycle: Cycle) -> None:
        """Choose the kept GPUs again if something changed since the last cycle."""
        self._cycle = cycle
        if self._is_stale:
            self.clear()
            self.keep()
            self._is_stale, self._has_chosen = False, True

    def clear(self) -> None:
        """Keep nothing any more. GPUs that were kept are preferred at the next choice."""
        if self._has_chosen:
            self._earlier = {name: frozenset(found.kept) for name, found in self.found().items()}
        for place in self.places:
            self.give_back(place)

    def note(self, job: Job, allocation: Allocation, *, gave_back: bool) -> None:
        """The job has begun to hold this, or has given it back."""
        queue = self._cycle.tree.index.get(job.queue)
        if not self._is_stale and queue is not None:
            classes = {bucket[0] for bucket, _ in allocation.charge.amounts}
            self._is_stale = any(self._may_change(place, queue, classes, gave_back=gave_back) for place in self.places)

    @contextmanager
    def opened_to(self, queue: int) -> Iterator[None]:
        """Like a decision, but GPUs are chosen again only if a job started meanwhile."""
        cycle = self._cycle
        own = [one for one in self.places if self.is_of(one, queue) and self.is_active(one.booking)]
        kept = [self.give_back(place) for place in own]
        before = len(cycle.started) + len(cycle.nominated)
        try:
            yield
        finally:
            for place, allocation in zip(own, kept, strict=True):
                if before < len(cycle.started) + len(cycle.nominated):
                    self._keep(place)
                else:
                    place.allocation = allocation
                    cycle.accounts.allocate(allocation)

    def _may_change(self, place: BookedPlace, queue: int, classes: set[str], *, gave_back: bool) -> bool:
        if place.booking.gpu_class not in classes:
            return False
        if self.is_of(place, queue):
            return True
        kept = sum(len(node.columns) for node in place.allocation.nodes)
        return gave_back and kept * WHOLE + place.used < place.gpus * WHOLE
