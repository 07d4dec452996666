"""Versions of objects as last seen, to recognize old news in any order.

Watch events, lists and the answers to our own writes overtake each other. The newest version of an object wins, and a
deleted uid never comes back (`tombstones`). A restore of etcd from a snapshot breaks both rules: versions start again
at a smaller number, and deleted objects exist again. A list reveals that if its version is smaller than that of the
list before, or than one that was seen before the list was asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.controller.client.kube import Document, Listing, Resource
from cotenant.controller.informers.tombstones import Tombstones


class ObjectVersions:
    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[str, int]] = {}
        """(plural, namespace/name) → (uid, version)."""
        self._listed: dict[str, int] = {}
        """Plural → version of its last list."""
        self._newest: dict[str, int] = {}
        """Plural → newest version of an object. A restore that another kind revealed leaves it: each kind has listeners
        of its own, and its next list tells them.
        """
        self._tombstones = Tombstones()

    def take_list(
        self, resource: Resource, listing: Listing, put: Callable[[Resource, Document], None]
    ) -> tuple[bool, list[str]]:
        """Take in a whole list by `put`. Returns whether it begins another history, and the keys of what is gone.

        A known object that is missing from the list is gone, unless it is newer than the list. After a list of another
        history, everything is news. A list of a kind that does not exist has the version 0, and everything is gone.
        """
        restored = 0 < listing.version < max(self._listed.get(resource.plural, 0), listing.newer_than)
        if restored:
            self._seen = {name: (uid, -1) for name, (uid, _) in self._seen.items()}
            self._tombstones, self._listed = Tombstones(), {}
            self._newest[resource.plural] = 0
        self._listed[resource.plural] = listing.version
        present = set()
        for document in listing.items:
            put(resource, document)
            present.add(document["metadata"]["uid"])
        gone = [
            (key, uid)
            for (plural, key), (uid, seen) in self._seen.items()
            if plural == resource.plural and uid not in present and (seen <= listing.version or not listing.version)
        ]
        for key, uid in gone:
            self.note_gone(resource, key, uid)
        return restored, [key for key, _ in gone]

    def newest(self, resource: Resource) -> int:
        """The newest version that was seen of an object of this kind."""
        return self._newest.get(resource.plural, 0)

    def is_gone(self, uid: str) -> bool:
        """True if an object with this uid was deleted."""
        return uid in self._tombstones

    def is_known(self, resource: Resource, key: str, uid: str) -> bool:
        """True if the object was seen, and has this name now."""
        known = self._seen.get((resource.plural, key))
        return known is not None and known[0] == uid

    def note(self, resource: Resource, key: str, uid: str, version: int) -> bool:
        """True if this is news: a new object, or a newer version of it."""
        known = self._seen.get((resource.plural, key))
        if known is not None and known[0] == uid and version <= known[1]:
            return False
        self._seen[resource.plural, key] = (uid, version)
        self._newest[resource.plural] = max(version, self.newest(resource))
        return True

    def note_gone(self, resource: Resource, key: str, uid: str) -> bool:
        """True if this frees the name. False if another object has it already."""
        self._tombstones.add(uid)
        known = self._seen.get((resource.plural, key))
        if known is not None and known[0] != uid:
            return False
        self._seen.pop((resource.plural, key), None)
        return True
