"""Objects of one kind and the objects that they own, as last observed: an informer cache with an index by owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cotenant.controller.client.kube import Document, Listing, Resource, key_of, version_of
from cotenant.controller.composites.composite import Composite, Observed, owner_of
from cotenant.controller.informers.object_versions import ObjectVersions


class OwnedObjects:
    """An older version of an object never replaces a newer one, whether it comes from a watch, a list or an answer to a
    write.
    """

    def __init__(self, composite: Composite, on_change: Callable[[str], None] = lambda key: None) -> None:
        """`on_change` gets the key of each object that needs a step."""
        self._composite, self._on_change = composite, on_change
        self._documents: dict[str, Document] = {}
        self._owned: dict[str, dict[tuple[Resource, str], Document]] = {}
        """Key of the owner → objects, whatever the uid of the owner."""
        self._owner_of: dict[tuple[Resource, str], str] = {}
        """Key of an owned object → key of its owner."""
        self._versions = ObjectVersions()
        self._listed: set[Resource] = set()

    @property
    def synced(self) -> bool:
        """True once everything was listed: an object that is not known does not exist."""
        return self._listed >= {self._composite.resource, *self._composite.owns}

    def __iter__(self) -> Iterator[str]:
        """Keys of all objects of the kind."""
        return iter(tuple(self._documents))

    def observed(self, key: str) -> Observed | None:
        """The object with the objects that it owns; None if there is no object of this name."""
        document = self._documents.get(key)
        if document is None:
            return None
        uid = document["metadata"]["uid"]
        owned = {
            place: one
            for place, one in self._owned.get(key, {}).items()
            if (owner := owner_of(one, self._composite.kind)) is not None and owner[1] == uid
        }
        return Observed(document=document, owned=owned)

    def put(self, resource: Resource, document: Document, deleted: bool = False) -> None:
        """Take in one object. Of owned kinds, only objects that name an owner of this kind count."""
        if resource != self._composite.resource and resource not in self._composite.owns:
            return
        metadata = document["metadata"]
        key, uid = key_of(metadata), metadata["uid"]
        if self._versions.is_gone(uid) or not self._concerns(resource, key, document):
            return
        if deleted:
            if self._versions.note_gone(resource, key, uid):
                self._drop(resource, key)
        elif self._versions.note(resource, key, uid, version_of(document)):
            self._store(resource, key, document)

    def replace(self, resource: Resource, listing: Listing) -> None:
        """Take in a whole list, and drop what is gone."""
        if resource != self._composite.resource and resource not in self._composite.owns:
            return
        _, gone = self._versions.take_list(resource, listing, self.put)
        for key in gone:
            self._drop(resource, key)
        self._listed.add(resource)

    def remove(self, resource: Resource, document: Document) -> None:
        """Drop an object of which the API server has said that it does not exist."""
        self.put(resource, document, deleted=True)

    def _concerns(self, resource: Resource, key: str, document: Document) -> bool:
        if resource == self._composite.resource or (resource, key) in self._owner_of:
            return True
        return owner_of(document, self._composite.kind) is not None

    def _store(self, resource: Resource, key: str, document: Document) -> None:
        if resource == self._composite.resource:
            self._documents[key] = document
            self._on_change(key)
            return
        self._forget_owner(resource, key)
        owner = owner_of(document, self._composite.kind)
        if owner is not None:
            namespace = document["metadata"].get("namespace")
            owner_key = f"{namespace}/{owner[0]}" if namespace else owner[0]
            self._owner_of[resource, key] = owner_key
            self._owned.setdefault(owner_key, {})[resource, document["metadata"]["name"]] = document
            self._on_change(owner_key)

    def _drop(self, resource: Resource, key: str) -> None:
        if resource == self._composite.resource:
            self._documents.pop(key, None)
            self._on_change(key)
        else:
            self._forget_owner(resource, key)

    def _forget_owner(self, resource: Resource, key: str) -> None:
        owner_key = self._owner_of.pop((resource, key), None)
        if owner_key is None:
            return
        mine = self._owned[owner_key]
        mine.pop((resource, key.rpartition("/")[2]), None)
        if not mine:
            del self._owned[owner_key]
        self._on_change(owner_key)
