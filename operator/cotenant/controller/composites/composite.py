"""A kind that is made of other objects: what is observed of one object, and the writes that follow. Values, no I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.kube import Document, Resource, key_of
from cotenant.controller.informers.status_reading import read_status
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.manifests import owners
from cotenant.core.model.lifecycle import Phase


@dataclass(frozen=True, slots=True)
class SeenObject:
    """An object as last seen."""

    document: Document

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Empty for a cluster-scoped object."""
        return str(self.document["metadata"].get("namespace", ""))

    @property
    def key(self) -> str:
        return key_of(self.document["metadata"])

    @property
    def uid(self) -> str:
        return str(self.document["metadata"]["uid"])

    @property
    def is_suspended(self) -> bool:
        return bool((self.document.get("spec") or {}).get("suspend"))


@dataclass(frozen=True, slots=True)
class SeenJob(SeenObject):
    """A TrainingJob as last seen."""

    @property
    def raw_status(self) -> Mapping[str, Any]:
        return self.document.get("status") or {}

    @property
    def status(self) -> TrainingJobStatus:
        return read_status(self.raw_status).status

    @property
    def phase(self) -> Phase:
        raw = self.raw_status.get("phase") or Phase.PENDING
        return Phase(raw) if raw in set(Phase) else Phase.RUNNING  # of a newer release: it may hold something


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(SeenObject):
    """One object and the objects that it owns."""

    owned: Mapping[tuple[Resource, str], Document] = field(default_factory=dict)
    """By kind and name. Only objects whose controller is this object, by uid."""
    taken: frozenset[str] = frozenset()
    """Names that a `Create` with `goes_on` has just found in use by an object of somebody else."""

    @property
    def generation(self) -> int:
        return int(self.document["metadata"].get("generation") or 0)

    @property
    def status(self) -> Mapping[str, Any]:
        """The status as stored. It is empty before the first write."""
        return self.document.get("status") or {}

    def of(self, resource: Resource) -> dict[str, Document]:
        """The objects of this kind that it owns, sorted by name."""
        return {name: self.owned[kind, name] for kind, name in sorted(self.owned, key=_name) if kind == resource}


def _name(key: tuple[Resource, str]) -> str:
    return key[1]


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object in the namespace of its owner, with an owner reference.

    If an object of the same owner exists already, it counts as made. An object of somebody else under this name is a
    failure of the owner.
    """

    resource: Resource
    body: Mapping[str, Any]
    """Its name follows from the owner alone, so two replicas make one object."""
    goes_on: bool = False
    """If the name is in use, the owner does not fail: it is decided again, with the name in `Observed.taken`."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch that is refused if the object has changed since it was seen; then the owner is decided again."""

    resource: Resource
    seen: Document
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this object by uid, whatever has changed in it. If it is gone, it counts as deleted."""

    resource: Resource
    seen: Document


Write: TypeAlias = Create | Patch | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """What to write: objects, then the status, then Events."""

    objects: tuple[Write, ...] = ()
    status: Mapping[str, Any] | None = None
    """The whole status, without the condition of the quarantine. Only differences are written. None leaves it as it is.
    """
    events: tuple[EventToRecord, ...] = ()
    """Recorded only if the status differs, so that a repeated decision reports once."""
    look_again_at: float | None = None
    """Unix seconds at which to decide again, even if nothing is observed."""

    @property
    def without_creations(self) -> Writes:
        """The writes that are still possible if the API server refuses to create: patches, deletions, and the status
        unless it tells of the new objects.
        """
        kept = tuple(one for one in self.objects if not isinstance(one, Create))
        all_there = len(kept) == len(self.objects)
        return replace(self, objects=kept, status=self.status if all_there else None)


class Composite(ABC):
    """One kind. The decision is a function: it makes no calls, and time comes in as data."""

    resource: ClassVar[Resource]
    kind: ClassVar[str]
    owns: ClassVar[tuple[Resource, ...]] = ()
    """Kinds of objects that it may own."""
    computes: ClassVar[bool] = False
    """True if a decision takes so long that it needs a thread."""

    @abstractmethod
    def decide(self, observed: Observed, now: float) -> Writes:
        """The writes for one object; `now` is in Unix seconds. An exception becomes the failure of this object, also a
        DocumentError if its document cannot be read.
        """


def owner_of(document: Mapping[str, Any], kind: str) -> tuple[str, str] | None:
    """(name, uid) of the object of this kind that controls it."""
    return owners.owner_of(document["metadata"].get("ownerReferences") or (), kind)


def with_owner(body: Mapping[str, Any], owner: Observed, kind: str) -> Document:
    """The object with its owner as controller, so that Kubernetes deletes it with its owner."""
    reference = owners.owner_reference(kind, owner.name, owner.uid)
    namespace = {"namespace": owner.namespace} if owner.namespace else {}
    return {**body, "metadata": {**body["metadata"], **namespace, "ownerReferences": [reference]}}
