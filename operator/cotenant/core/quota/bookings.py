"""Bookings: a queue is to have so many GPUs of a class, in one zone or anywhere, for some time.

While a booking is active, its queue is guaranteed at least so many GPUs there and may hold as many. The guarantees and
limits of queues above rise by what the booking needs. What a queue is guaranteed anyway counts towards its booking;
only the rest is *needed* from others. It comes from GPUs that are guaranteed to no queue and that no earlier booking of
an overlapping time needs. If there are too few, fewer are granted, and the standing says why. So a booking takes
nothing from a guarantee, and if nodes are lost, bookings get less before any guarantee does. The room is checked for
four sets of GPUs: the class in the zone, the class, the zone, and all. In each of them everything that is guaranteed
and booked must fit (Hall's condition for these four).

Example: 8 GPUs, red and blue are guaranteed 3 each. 5 are booked for red: it needs 2 beyond its 3, and there are 2. A
second one of 2 for blue at the same time is granted nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from cotenant.core.model.formatting import counted, format_gpus
from cotenant.core.model.objects import WHOLE, Node, Quota, TenantQueue
from cotenant.core.quota.scopes import Scope, amount_in, covers, meet, scope_text

Capacity: TypeAlias = Mapping[tuple[str, str], int]
"""(class, zone) → milli-GPU that take work."""
_NOBODY: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingTerms:
    name: str
    queue: str
    gpu_class: str
    zone: str | None = None
    """None: any."""
    gpus: int
    """Whole GPUs."""
    starts_at: float
    ends_at: float
    """Unix seconds; it is active from the one on and before the other."""
    since: float = 0.0
    """When it was made: earlier ones come first."""

    @property
    def scope(self) -> Scope:
        return self.gpu_class, self.zone

    @property
    def what(self) -> str:
        return f"{counted(self.gpus, 'GPU')} of class {self.gpu_class}" + (f" in zone {self.zone}" if self.zone else "")

    def overlaps(self, other: BookingTerms) -> bool:
        """Both are active at some moment."""
        return self.starts_at < other.ends_at and other.starts_at < self.ends_at


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingStanding:
    """How much of a booking is granted."""

    booking: BookingTerms
    gpus: int
    """Granted: as many as are booked, or as there is room for."""
    why: str = ""
    """Why it is not all of them; empty where it is."""


def with_bookings(
    queues: Mapping[str, TenantQueue], bookings: Iterable[BookingTerms], capacity: Capacity, now: float
) -> tuple[dict[str, TenantQueue], tuple[BookingStanding, ...]]:
    """Queues with the quotas that active bookings add at this moment, and the standings of all bookings that are not
    over, in the order in which they were made. `queues`: with everything else that is granted to them."""
    found = dict(queues)
    standings: list[BookingStanding] = []
    needs: list[tuple[BookingTerms, int]] = []
    for booking in sorted(bookings, key=lambda one: (one.since, one.name)):
        if booking.ends_at <= now:
            continue
        standing, need = _standing(queues, booking, capacity, needs, standings)
        standings.append(standing)
        needs.append((booking, need))
        if booking.starts_at <= now and standing.gpus:
            _raise_path(found, queues, booking, standing.gpus * WHOLE, need)
    return found, tuple(standings)


def capacity_of(nodes: Iterable[Node]) -> dict[tuple[str, str], int]:
    """Milli-GPU that take work today, as `tree.capacities` counts them."""
    found: dict[tuple[str, str], int] = {}
    for node in nodes:
        for gpu in node.gpus if node.ready else ():
            if gpu.healthy:
                found[gpu.gpu_class, node.zone] = found.get((gpu.gpu_class, node.zone), 0) + WHOLE
    return found


def _standing(
    queues: Mapping[str, TenantQueue],
    booking: BookingTerms,
    capacity: Capacity,
    needs: Sequence[tuple[BookingTerms, int]],
    before: Sequence[BookingStanding],
) -> tuple[BookingStanding, int]:
    """The standing, and the milli-GPU that the booking needs beyond what the queue is guaranteed."""
    if why := _obstacle(queues, booking):
        return BookingStanding(booking=booking, gpus=0, why=why), 0
    overlapping = [(other, need) for other, need in needs if other.overlaps(booking)]
    around = dict.fromkeys([booking.scope, (booking.gpu_class, None), (None, booking.zone), (None, None)])
    rooms = [
        (amount_in(capacity, scope) - _guaranteed(queues, scope)
         - sum(need for other, need in overlapping if covers(scope, other.scope)), scope)
        for scope in around
    ]  # fmt: skip
    room, tightest = min(rooms, key=lambda one: one[0])
    earlier = [one for one in before if one.booking.overlaps(booking)]
    own = sum(
        one.gpus * WHOLE
        for one in earlier
        if one.booking.queue == booking.queue and covers(booking.scope, one.booking.scope)
    )
    unclaimed = max(0, _own_guarantee(queues[booking.queue], booking.scope) - own)
    taken = sum(one.gpus * WHOLE for one in earlier if meet(one.booking.scope, booking.scope))
    there = amount_in(capacity, booking.scope) - taken
    most = max(0, min(booking.gpus * WHOLE, there, max(0, room) + unclaimed)) // WHOLE
    need = max(0, most * WHOLE - unclaimed)
    if most == booking.gpus:
        return BookingStanding(booking=booking, gpus=most), need
    why = _shortage(booking, capacity, taken) if there < max(0, room) + unclaimed else _guarantees(queues, tightest)
    others = [f"{other.name}" for other, need in overlapping if need and covers(tightest, other.scope)]
    if others and there >= max(0, room) + unclaimed:
        why += f"; the rest is booked at this time ({', '.join(others)})"
    return BookingStanding(booking=booking, gpus=most, why=f"{most} of {booking.what} can be booked: {why}"), need


def _shortage(booking: BookingTerms, capacity: Capacity, taken: int) -> str:
    have = format_gpus(amount_in(capacity, booking.scope))
    booked = f", {format_gpus(taken)} of which are booked for others at this time" if taken else ""
    return f"the cluster has {have} of them in service{booked}"


def _guarantees(queues: Mapping[str, TenantQueue], scope: Scope) -> str:
    amount = format_gpus(_guaranteed(queues, scope))
    return f"{amount} GPUs of {scope_text(scope)} are guaranteed to queues, and a booking cannot use them"


def _obstacle(queues: Mapping[str, TenantQueue], booking: BookingTerms) -> str:
    """Why the queue could not use what is booked for it, whatever is free."""
    queue = queues.get(booking.queue)
    if queue is None:
        return f"there is no queue {booking.queue}"
    for one in path_of(queues, queue):
        near = [quota for quota in one.quotas if meet(quota.scope, booking.scope)]
        narrow = next((quota for quota in near if not covers(quota.scope, booking.scope)), None)
        if narrow is not None:
            return f"queue {one.name} has a quota for zone {narrow.zone} alone; book each zone by itself"
        if not near and one.quotas and one is not queue:
            return f"queue {one.name} above has no quota that covers {booking.what}"
    if not queue.quotas and any(one.parent == queue.name for one in queues.values()):
        return f"queue {queue.name} has no quotas of its own and only groups others; book for one of them"
    return ""


def _raise_path(
    found: dict[str, TenantQueue], queues: Mapping[str, TenantQueue], booking: BookingTerms, milli: int, need: int
) -> None:
    """Guarantee the queue at least `milli` besides its other bookings, and queues above `need` more."""
    own = queues[booking.queue]
    for place, before in enumerate(path_of(queues, own)):
        queue = found[before.name]
        places = [n for n, one in enumerate(queue.quotas) if covers(one.scope, booking.scope)]
        quotas = list(queue.quotas)
        if not places and place == 0:
            quotas.append(Quota(gpu_class=booking.gpu_class, zone=booking.zone, guaranteed=milli, limit=milli))
        # Every line that guarantees something has to cover the booking. If no line does, the first one is raised.
        guaranteeing = [n for n in places if quotas[n].guaranteed] or places[:1]
        for n in places:
            more = need if n in guaranteeing else 0
            if n in guaranteeing and not quotas[n].guaranteed:
                more = milli
            quotas[n] = _raised(quotas[n], more, need, at_least=milli if place == 0 else 0)
        found[before.name] = replace(queue, quotas=tuple(quotas))


def _raised(quota: Quota, guaranteed: int, limit: int, *, at_least: int) -> Quota:
    """`limit`: None stays None. `lendable`: what is added is lent while idle, to jobs that may be evicted for it."""
    return replace(
        quota,
        guaranteed=quota.guaranteed + guaranteed,
        limit=None if quota.limit is None else max(quota.limit + limit, quota.guaranteed + guaranteed, at_least),
        lendable=None if quota.lendable is None else quota.lendable + guaranteed,
    )


def _own_guarantee(queue: TenantQueue, scope: Scope) -> int:
    """Milli-GPU that the queue is guaranteed in the scope: the smallest of its guaranteeing lines that cover it."""
    lines = [one.guaranteed for one in queue.quotas if one.guaranteed and covers(one.scope, scope)]
    return min(lines, default=0)


def _guaranteed(queues: Mapping[str, TenantQueue], scope: Scope) -> int:
    """Milli-GPU that all guarantees need within the scope: those of lines that lie in it."""
    below: dict[str, list[TenantQueue]] = {}
    for queue in queues.values():
        below.setdefault(queue.parent or _NOBODY, []).append(queue)

    def of(queue: TenantQueue) -> int:
        return max(_own_lines(queue, scope), sum(of(child) for child in below.get(queue.name, ())))

    return sum(of(root) for root in below.get(_NOBODY, ()))


def _own_lines(queue: TenantQueue, scope: Scope) -> int:
    lines = [one for one in queue.quotas if one.guaranteed and covers(scope, one.scope)]
    return sum(
        one.guaranteed
        for one in lines
        if not any(other is not one and covers(other.scope, one.scope) for other in lines)
    )


def path_of(queues: Mapping[str, TenantQueue], queue: TenantQueue) -> list[TenantQueue]:
    """The queue, and those above it. A circle of parents ends where it began."""
    path = [queue]
    while (above := queues.get(path[-1].parent or _NOBODY)) is not None and above not in path:
        path.append(above)
    return path
