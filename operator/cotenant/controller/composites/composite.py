"""A kind that is made of other objects: what is observed of one, and the writes that follow. Values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from cotenant import names
from cotenant.controller.client.kube import Document, Resource
from cotenant.controller.lifecycle.observation import EventToRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One object and what it owns, as last seen."""

    document: Document
    owned: Mapping[tuple[Resource, str], Document] = field(default_factory=dict)
    """By kind and name: what names this very object, by uid, as its controller."""
    taken: frozenset[str] = frozenset()
    """Names that a `Create` with `goes_on` has just found taken by an object of somebody else's."""

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Empty for an object of the cluster."""
        return str(self.document["metadata"].get("namespace", ""))

    @property
    def uid(self) -> str:
        return str(self.document["metadata"]["uid"])

    @property
    def generation(self) -> int:
        return int(self.document["metadata"].get("generation") or 0)

    @property
    def status(self) -> Mapping[str, Any]:
        """Status as it is written; empty before the first write."""
        return self.document.get("status") or {}

    def of(self, resource: Resource) -> dict[str, Document]:
        """What it owns of this kind, by name, in the order of names."""
        return {name: self.owned[kind, name] for kind, name in sorted(self.owned, key=_name) if kind == resource}


def _name(key: tuple[Resource, str]) -> str:
    return key[1]


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object in the namespace of its owner, who is written into it. One of ours that is there already counts as
    made; a namesake that is not ours is a failure of the owner.
    """

    resource: Resource
    body: Mapping[str, Any]
    """With a name that follows from the owner alone: what is made twice by two replicas is one object."""
    goes_on: bool = False
    """A namesake is no failure: the owner is decided for again, with the name in `Observed.taken`."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge patch of an object as it was seen: one that has changed since is looked at anew instead."""

    resource: Resource
    seen: Document
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this very object, whatever has changed in it. One that is gone counts as deleted."""

    resource: Resource
    seen: Document


Write: TypeAlias = Create | Patch | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """What is to be written, in this order: objects, then the status, then Events."""

    objects: tuple[Write, ...] = ()
    status: Mapping[str, Any] | None = None
    """The whole status as it is to stand, without the condition of the quarantine; None leaves it as it is. Only the
    difference is written."""
    events: tuple[EventToRecord, ...] = ()
    """Recorded once a status that differs is written, so that what is decided twice is reported once."""
    look_again_at: float | None = None
    """Unix seconds: when to decide again, whether anything has been observed or not."""

    @property
    def without_creations(self) -> Writes:
        """What goes on while the API server refuses what is to be made: patches and deletes, and the status where it
        does not speak of what would have been made.
        """
        kept = tuple(one for one in self.objects if not isinstance(one, Create))
        all_there = len(kept) == len(self.objects)
        return replace(self, objects=kept, status=self.status if all_there else None)


class Composite(Protocol):
    """One kind. The decision is a function: it calls nobody, and time comes in as data."""

    @property
    def resource(self) -> Resource: ...

    @property
    def kind(self) -> str: ...

    @property
    def owns(self) -> tuple[Resource, ...]:
        """Kinds of the objects that it is made of."""

    @property
    def computes(self) -> bool:
        """Its decisions take so long that they are made in a thread of their own."""

    def decide(self, observed: Observed, now: float) -> Writes:
        """Next step of one object, `now` in Unix seconds. Whatever it raises is that object's failure."""


def owner_of(document: Mapping[str, Any], kind: str) -> tuple[str, str] | None:
    """(name, uid) of the object of this kind that controls it."""
    for reference in document["metadata"].get("ownerReferences") or ():
        is_ours = reference.get("apiVersion") in names.API_VERSIONS and reference.get("kind") == kind
        if is_ours and reference.get("controller"):
            return str(reference.get("name")), str(reference.get("uid"))
    return None


def with_owner(body: Mapping[str, Any], owner: Observed, kind: str) -> Document:
    """The object with its owner as controller: Kubernetes deletes it with its owner."""
    reference = {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    namespace = {"namespace": owner.namespace} if owner.namespace else {}
    return {**body, "metadata": {**body["metadata"], **namespace, "ownerReferences": [reference]}}
