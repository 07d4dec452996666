"""Digests of snapshots. Two snapshots have the same digest if everything that `schedule` reads is equal, in any order.

A digest is the sum of the digests of its parts (a multiset hash: Bellare and Micciancio, A New Paradigm for
Collision-free Hashing, 1997). A part is digested again only if it is another object, so a cycle costs what changed. The
digest distinguishes snapshots; it is no proof against forgery.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import fields
from typing import Final

from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.decision_log.codec import canonical

_PARTS: Final = ("nodes", "queues", "jobs")
_OTHERS: Final = tuple(one.name for one in fields(Snapshot) if one.compare and one.name not in _PARTS)
_ADDED_LATER: Final = frozenset({"bookings", "booked"})
"""Fields that are empty in what older programs recorded. They are no part of its digest."""
_BITS: Final = 256


class SnapshotDigests:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[object, int]] = {}
        """(part, key) → the value and its digest, of the last snapshot."""
        self._sum = 0

    def of(self, snapshot: Snapshot) -> str:
        """Digest of 32 bytes, in hexadecimal."""
        before, known, total = self._known, {}, self._sum
        for at, value in _values(snapshot):
            entry = before.pop(at, None)
            if entry is None or entry[0] is not value:
                total -= entry[1] if entry is not None else 0
                entry = value, _digest(at, value)
                total += entry[1]
            known[at] = entry
        total -= sum(own for _, own in before.values())  # what is left of it is gone
        self._known, self._sum = known, total % (1 << _BITS)
        return f"{self._sum:0{_BITS // 4}x}"


def _values(snapshot: Snapshot) -> Iterable[tuple[tuple[str, str], object]]:
    yield from ((("nodes", node.name), node) for node in snapshot.nodes)
    yield from ((("queues", queue.name), queue) for queue in snapshot.queues)
    yield from ((("jobs", job.key), job) for job in snapshot.jobs)
    others = ((name, getattr(snapshot, name)) for name in _OTHERS)
    yield from ((("", name), value) for name, value in others if value or name not in _ADDED_LATER)


def _digest(at: tuple[str, str], value: object) -> int:
    return int.from_bytes(hashlib.sha256(f"{at[0]}/{at[1]}={canonical(value)}".encode()).digest())
