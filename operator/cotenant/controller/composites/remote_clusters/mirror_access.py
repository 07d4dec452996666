"""Reads and writes the jobs on one other cluster. A write to a job that has changed meanwhile does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.api.resources.placement_status import ClusterRun
from cotenant.controller.client.kube import TRAINING_JOBS, Kube, Outcome, RefusedError
from cotenant.controller.composites.remote_clusters.connection import RemoteConnection
from cotenant.controller.composites.remote_clusters.mirror import Origin, SeenMirror
from cotenant.controller.composites.remote_clusters.steps import DeleteMirror, PatchMirror
from cotenant.controller.telemetry.logs import shorten


class MirrorRefusedError(RefusedError):
    """The other cluster refuses the job. The message has its answer."""


@dataclass(frozen=True, slots=True)
class MirrorAccess:
    """All methods raise TroubleError if the cluster does not answer, and RefusedError if it refuses."""

    connection: RemoteConnection
    there: Kube
    origin: Origin
    pass_users: bool
    """True if the jobs there carry the names of their users."""

    async def listed(self, namespace: str) -> dict[tuple[str, str], SeenMirror]:
        """Namespace and name → jobs there that came from here. An empty `namespace` means all namespaces."""
        listing = await self.connection.ask(self.there.list(TRAINING_JOBS, namespace, self.origin.selector))
        return {(one.namespace, one.name): one for one in map(SeenMirror, listing.items)}

    async def find(self, cluster: ClusterRun) -> SeenMirror | None:
        """The job there; None if it is gone."""
        reply = await self.connection.ask(self.there.get(TRAINING_JOBS, cluster.job, cluster.namespace))
        if reply.outcome is Outcome.REFUSED:
            raise RefusedError(f"it cannot be read there ({reply.code}): {shorten(reply.message)}")
        return SeenMirror(reply.document) if reply.done and reply.document["metadata"]["uid"] == cluster.uid else None

    async def make(self, document: Mapping[str, Any], cluster: ClusterRun, uid: str) -> SeenMirror:
        """Make the job there, or find the one that was made before. `uid` is that of the job here."""
        reply = await self.connection.ask(self.there.create(TRAINING_JOBS, document, cluster.namespace))
        if reply.outcome is Outcome.EXISTS:
            reply = await self.connection.ask(self.there.get(TRAINING_JOBS, cluster.job, cluster.namespace))
        if not reply.done:
            raise MirrorRefusedError(shorten(reply.message))
        found = SeenMirror(reply.document)
        if found.origin_uid != uid:
            raise MirrorRefusedError(f"{cluster.namespace}/{cluster.job} is another job there")
        return found

    async def change(self, step: PatchMirror) -> SeenMirror | None:
        """Patch the job there. Returns it as it is afterwards; None if it has changed meanwhile or is gone."""
        seen = step.seen
        metadata = {**step.patch.get("metadata", {}), "uid": seen.uid, "resourceVersion": str(seen.version)}
        body = {**step.patch, "metadata": metadata}
        reply = await self.connection.ask(self.there.patch(TRAINING_JOBS, seen.name, body, namespace=seen.namespace))
        if reply.outcome is Outcome.REFUSED:
            raise RefusedError(f"it cannot be changed there ({reply.code}): {shorten(reply.message)}")
        return SeenMirror(reply.document) if reply.done else None

    async def delete(self, step: DeleteMirror) -> bool:
        """Delete the job there. True once it was seen to be gone."""
        seen = step.seen
        reply = await self.connection.ask(
            self.there.delete(TRAINING_JOBS, seen.name, seen.namespace, uid=seen.uid, version=seen.version)
        )
        if reply.outcome is Outcome.REFUSED:
            raise RefusedError(f"it cannot be deleted there ({reply.code}): {shorten(reply.message)}")
        if reply.outcome is Outcome.CONFLICT:
            return False
        left = await self.connection.ask(self.there.get(TRAINING_JOBS, seen.name, seen.namespace))
        return left.outcome is Outcome.MISSING

    async def end(self, seen: SeenMirror) -> bool:
        """Delete the job there, whatever it does. True if the cluster accepts that."""
        reply = await self.connection.ask(self.there.delete(TRAINING_JOBS, seen.name, seen.namespace, uid=seen.uid))
        return reply.done
