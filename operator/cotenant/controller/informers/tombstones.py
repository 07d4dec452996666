"""Tombstones of deleted objects. A deleted uid never comes back, so late events about it are ignored."""

from __future__ import annotations

from collections import OrderedDict

TOMBSTONES_MAX = 20_000
"""How many deleted uids are remembered: enough for all events that may still arrive."""


class Tombstones:
    """The newest `TOMBSTONES_MAX` deleted uids."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> str | None:
        """Remember this uid. Returns the oldest one if it is remembered no more."""
        self._uids[uid] = None
        return self._uids.popitem(last=False)[0] if len(self._uids) > TOMBSTONES_MAX else None
