"""Tombstones of deleted objects: a uid that was deleted never comes back, whatever is still on its way."""

from __future__ import annotations

from collections import OrderedDict

TOMBSTONES_MAX = 20_000
"""Deleted uids that are remembered: enough for everything that may still be on its way."""


class Tombstones:
    """The newest `TOMBSTONES_MAX` deleted uids."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        self._uids[uid] = None
        if len(self._uids) > TOMBSTONES_MAX:
            self._uids.popitem(last=False)
