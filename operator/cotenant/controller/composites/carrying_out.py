"""Carries out what was decided for one composite: writes its objects, then its status, then its Events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.controller.client.kube import Document, Kube, Outcome, RefusedError, Reply, Resource
from cotenant.controller.client.merge_patch import difference
from cotenant.controller.composites.composite import Composite, Create, Delete, Observed, Patch, owner_of, with_owner
from cotenant.controller.composites.failures import OwnershipError
from cotenant.controller.composites.owned_objects import OwnedObjects
from cotenant.controller.telemetry.logs import shorten


class StaleError(RuntimeError):
    """The object has changed since the write was decided. It has to be decided again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeWriter:
    """Every method may raise UnreachableError (also FencedError), StaleError, RefusedError."""

    kube: Kube
    composite: Composite
    objects: OwnedObjects

    async def write(self, owner: Observed, write: Create | Patch | Delete) -> None:
        if isinstance(write, Create):
            await self._create(owner, write)
        elif isinstance(write, Patch):
            await self._change(write)
        else:
            await self._delete(write)

    async def write_status(self, owner: Observed, status: Mapping[str, Any]) -> bool:
        """Write the fields that differ, if the document still has the version that the decision used. True if any
        differed.
        """
        change = difference(owner.status, status)
        if not change:
            return False
        body = {"metadata": _guard(owner.document), "status": change}
        reply = await self.kube.patch(
            self.composite.resource, owner.name, body, namespace=owner.namespace, subresource="status"
        )
        await self._taken(self.composite.resource, owner.document, reply)
        return True

    async def _create(self, owner: Observed, write: Create) -> None:
        kind, resource, name = self.composite.kind, write.resource, write.body["metadata"]["name"]
        reply = await self.kube.create(resource, with_owner(write.body, owner, kind), owner.namespace)
        if reply.outcome is Outcome.EXISTS:
            reply = await self.kube.get(resource, name, owner.namespace)
            if reply.outcome is Outcome.MISSING:
                raise StaleError(f"{resource.plural} {name} has just gone")
            if reply.done and owner_of(reply.document, kind) != (owner.name, owner.uid):
                raise OwnershipError(
                    f"{resource.plural} {name} is there already, and is not made for this {kind}; delete it, or give"
                    f" the {kind} another name"
                )
        if not reply.done:
            raise RefusedError(f"{resource.plural} {name}: {shorten(reply.message)}")
        self.objects.put(resource, reply.document)

    async def _change(self, write: Patch) -> None:
        metadata = write.seen["metadata"]
        body = {**write.patch, "metadata": {**write.patch.get("metadata", {}), **_guard(write.seen)}}
        reply = await self.kube.patch(write.resource, metadata["name"], body, namespace=metadata.get("namespace", ""))
        await self._taken(write.resource, write.seen, reply)

    async def _delete(self, write: Delete) -> None:
        metadata = write.seen["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        reply = await self.kube.delete(write.resource, name, namespace, uid=metadata["uid"])
        if reply.done or reply.outcome in {Outcome.MISSING, Outcome.CONFLICT}:  # conflict: a namesake came later
            return
        raise RefusedError(f"{write.resource.plural} {name}: {shorten(reply.message)}")

    async def _taken(self, resource: Resource, seen: Document, reply: Reply) -> None:
        """Take in the document that a patch returned. Raises StaleError if it is another object than the one that was
        seen.
        """
        metadata = seen["metadata"]
        if reply.done:
            self.objects.put(resource, reply.document)
        elif reply.outcome is Outcome.MISSING:
            self.objects.remove(resource, seen)
            raise StaleError(f"{resource.plural} {metadata['name']} is gone")
        elif reply.outcome is Outcome.CONFLICT:
            newer = await self.kube.get(resource, metadata["name"], metadata.get("namespace", ""))
            if newer.done:
                self.objects.put(resource, newer.document)
            raise StaleError(f"{resource.plural} {metadata['name']} has changed")
        else:
            raise RefusedError(f"{resource.plural} {metadata['name']}: {shorten(reply.message)}")


def _guard(seen: Document) -> dict[str, Any]:
    return {"resourceVersion": seen["metadata"]["resourceVersion"], "uid": seen["metadata"]["uid"]}
