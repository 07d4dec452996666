"""Pods of a job that is on another cluster, and what they print: read there by the account of the kubeconfig.

A reader here gets the pods of its own job there and no others, whatever name it asks for.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cotenant import names
from cotenant.api.resources.placement_status import ClusterRun
from cotenant.controller.client.kube import (
    PODS,
    Document,
    Kube,
    KubeWithLogs,
    Outcome,
    RefusedListError,
    UnreachableError,
)
from cotenant.controller.composites.remote_clusters.connection import Connect, RemoteConnection
from cotenant.controller.composites.remote_clusters.trouble import TroubleError, trouble_of
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.query_api.questions import NotNowError
from cotenant.controller.telemetry.logs import shorten

ROLE: Final = "cotenant-remote-logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePods:
    kube: Kube
    cache: ObjectCache
    connect: Connect
    namespace: str
    """Namespace of the Secrets with kubeconfigs."""

    @contextlib.asynccontextmanager
    async def of(self, cluster: ClusterRun) -> AsyncIterator[PodsThere]:
        """A client of its own, for one question. Raises TroubleError, and UnreachableError for the API server here."""
        known = self.cache.remote_clusters.get(cluster.name)
        if known is None:
            raise TroubleError("Unregistered", f"there is no RemoteCluster {cluster.name} any more")
        secret = known[0].spec.kubeconfig_secret
        connection = RemoteConnection(self.kube, self.connect, self.namespace)
        try:
            there = await connection.client(secret)
            if connection.server != cluster.server:
                moved = f"the job is at {cluster.server}, and the kubeconfig names {connection.server} now"
                raise TroubleError("Moved", moved)
            yield PodsThere(there, cluster, secret)
        finally:
            await connection.close()


@dataclass(frozen=True, slots=True)
class PodsThere:
    """All methods raise TroubleError if the cluster does not answer or refuses."""

    there: KubeWithLogs
    cluster: ClusterRun
    secret: str

    async def listed(self, attempt: int) -> list[Document]:
        """The pods of one attempt, in short."""
        wanted = f"{names.LABEL_JOB_UID}={self.cluster.uid},{names.LABEL_ATTEMPT}={attempt}"
        with self._troubles():
            found = await self.there.list(PODS, self.cluster.namespace, wanted)
        return [_in_short(one) for one in found.items if self._is_of_job(one)]

    async def pod(self, name: str) -> Document | None:
        """One pod, in short; None if the job has none of this name."""
        with self._troubles():
            reply = await self.there.get(PODS, name, self.cluster.namespace)
        if reply.outcome is Outcome.REFUSED:
            raise self._forbidden(reply.message)
        return _in_short(reply.document) if reply.done and self._is_of_job(reply.document) else None

    @contextlib.asynccontextmanager
    async def log(self, name: str, query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """What a pod of the job prints. Raises NotNowError if the kubelet there has no log yet."""
        with self._troubles():
            async with self.there.log(name, self.cluster.namespace, {**query, "container": names.CONTAINER}) as chunks:
                yield chunks

    def _is_of_job(self, pod: Document) -> bool:
        """Labels can be written by others there, so the owner counts too."""
        metadata = pod["metadata"]
        owners = {one.get("uid") for one in metadata.get("ownerReferences") or () if one.get("controller")}
        labelled = (metadata.get("labels") or {}).get(names.LABEL_JOB_UID)
        return labelled == self.cluster.uid and owners == {self.cluster.uid}

    @contextlib.contextmanager
    def _troubles(self) -> Iterator[None]:
        """Failures of reads in words that say what to do."""
        try:
            yield
        except RefusedListError as error:
            if error.code == 400:
                raise NotNowError(str(error)) from error
            forbidden = error.code == 403
            raise (self._forbidden(str(error)) if forbidden else trouble_of(error, self.secret)) from error
        except UnreachableError as error:
            raise trouble_of(error, self.secret) from error

    def _forbidden(self, said: str) -> TroubleError:
        why = (
            f"the account of the kubeconfig may not read pods and their logs in namespace {self.cluster.namespace}; an"
            f" administrator there binds it to the role {ROLE} ({shorten(said)})"
        )
        return TroubleError("Forbidden", why)


def _in_short(pod: Document) -> Document:
    """What `cotenant logs` reads of a pod."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    noted = (metadata.get("annotations") or {}).get(names.ANNOTATION_PLACEMENT)
    states = [{"state": one.get("state") or {}} for one in status.get("containerStatuses") or ()]
    return {
        "metadata": {"name": metadata["name"], "annotations": {names.ANNOTATION_PLACEMENT: noted} if noted else {}},
        "status": {"phase": status.get("phase", ""), "containerStatuses": states},
    }
