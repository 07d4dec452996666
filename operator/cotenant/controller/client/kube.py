"""Interface to the API server: six verbs, and the outcome of each as a value.

A conflict, an object that exists and one that is gone are ordinary answers here (`Outcome`), because the caller acts on
them. Only a server that cannot be reached, or that keeps failing, raises (`UnreachableError`). `RestKube` implements it
over HTTP and puts every write before the `Fence`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote

from cotenant import names

Document: TypeAlias = dict[str, Any]
"""One Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object and where the API server keeps it."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, or of the whole list. A name is quoted, so it stays one part of the path."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        tail = f"/{quote(name, safe='')}" if name else ""
        return f"{root}{scope}/{self.plural}{tail}" + (f"/{subresource}" if subresource else "")


TRAINING_JOBS: Final = Resource(names.GROUP, names.VERSION, "trainingjobs")
SWEEPS: Final = Resource(names.GROUP, names.VERSION, "sweeps")
QUEUES: Final = Resource(names.GROUP, names.VERSION, "queues", namespaced=False)
LOCAL_QUEUES: Final = Resource(names.GROUP, names.VERSION, "localqueues")
QUOTA_REQUESTS: Final = Resource(names.GROUP, names.VERSION, "quotarequests")
BOOKINGS: Final = Resource(names.GROUP, names.VERSION, "bookings", namespaced=False)
REMOTE_CLUSTERS: Final = Resource(names.GROUP, names.VERSION, "remoteclusters", namespaced=False)
SESSIONS: Final = Resource(names.GROUP, names.VERSION, "sessions")
PROFILES: Final = Resource(names.GROUP, names.VERSION, "trainingprofiles")
CLUSTER_PROFILES: Final = Resource(names.GROUP, names.VERSION, "clustertrainingprofiles", namespaced=False)
GPU_NODES: Final = Resource(names.GROUP, names.VERSION, "gpunodes", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", namespaced=False)
PODS: Final = Resource("", "v1", "pods")
PERSISTENT_VOLUMES: Final = Resource("", "v1", "persistentvolumes", namespaced=False)
PERSISTENT_VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims")
SERVICES: Final = Resource("", "v1", "services")
SECRETS: Final = Resource("", "v1", "secrets")
NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases")
TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
SUBJECT_ACCESS_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)
RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims")
EVENTS: Final = Resource("", "v1", "events")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps")
API_SERVICES: Final = Resource("apiregistration.k8s.io", "v1", "apiservices", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False
)
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices")


class Outcome(StrEnum):
    DONE = "Done"
    CONFLICT = "Conflict"
    """409: the object has a newer resourceVersion than the write was guarded with, or another uid."""
    EXISTS = "AlreadyExists"
    MISSING = "NotFound"
    REFUSED = "Refused"
    """400, 403, 422 …: repeating the same write is pointless."""


@dataclass(frozen=True, slots=True)
class Reply:
    outcome: Outcome
    document: Document = field(default_factory=dict)
    """The object as the server now has it, when `outcome` is DONE."""
    message: str = ""
    code: int = 200
    fields: tuple[str, ...] = ()
    """Fields that the API server's validation refused."""

    @property
    def done(self) -> bool:
        return self.outcome is Outcome.DONE


@dataclass(frozen=True, slots=True)
class Listing:
    items: Iterable[Document]
    """A list. `items` may be built at each iteration, so read it once."""
    version: int
    """resourceVersion of the list: an object that is not in it, and is not newer, is gone."""
    newer_than: int = 0
    """The newest version that was known before the list was asked for. Only a restore of etcd makes a list older."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    kind: str
    """`ADDED`, `MODIFIED`, `DELETED`, or `BOOKMARK`, which has a version and no object."""
    document: Document
    """The object as it is now, or its last state if it was deleted."""
    version: int
    """resourceVersion: a watch from here on brings what comes after this event."""


class UnreachableError(ConnectionError):
    """The API server did not answer in time, or kept answering with errors. The message names the call and the last
    answer.

    A write that raises this is uncertain: it may have happened, and only its answer was lost.
    """


class RefusedListError(UnreachableError):
    """The API server answers, and refuses the list or the log: it does not know who asks (`code` 401), or they may not
    (403).
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class MissingKindError(UnreachableError):
    """The API server has no such kind (yet): its CustomResourceDefinition is not installed."""


class VersionGoneError(RuntimeError):
    """A watch cannot go on from this version: the server has forgotten what came after it, or never had it."""


class FailedWebhookError(UnreachableError):
    """An admission webhook of the cluster does not answer, so the API server refused the write: nothing was written.

    The message is the API server's. It names the webhook.
    """


class FailingServerError(UnreachableError):
    """The API server answered each attempt of a call, but could not do it, as when its storage or a quota fails.

    Whether something was written is not known. The message has its last words.
    """


class StaleTrustError(UnreachableError):
    """The API server's certificate is of an authority that was mounted after this process read the trusted ones.

    Only a new process trusts it in all of its connections.
    """


class FencedError(UnreachableError):
    """A write was never sent, because another replica may lead by now."""


class RefusedError(RuntimeError):
    """The API server refused a necessary write, and would refuse it again. The message has its answer."""


BeforeWrite = Callable[[str], None]
"""Hook that gets the name of a write (`PATCH /apis/…`) right before it is sent, and raises to hold it back."""


class Kube(Protocol):
    """API server as the controller uses it. Every verb may raise UnreachableError."""

    async def list(
        self, resource: Resource, namespace: str = "", labels: str = "", *, name: str = "", about: str = ""
    ) -> Listing:
        """`name`: only objects of this name, in any namespace. `about`: only Events about the object of this uid, and
        at most one page of them, because tenants may write any number of Events.
        """

    def watch(self, resource: Resource, version: int, *, name: str = "") -> AsyncGenerator[Sequence[WatchEvent], None]:
        """Changes after this version, in order, until the server ends the watch, as it does from time to time.

        Raises VersionGoneError, or UnreachableError if the watch breaks or falls silent.
        """

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Reply: ...

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Reply: ...

    async def patch(
        self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str = "", subresource: str = ""
    ) -> Reply:
        """Apply a JSON merge patch; a stale `metadata.resourceVersion` in the body makes it a CONFLICT."""

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        version: int = 0,
        grace_s: int | None = None,
    ) -> Reply:
        """Delete one object. With `uid`, a later object of the same name is left alone (CONFLICT); with `version`, one
        that has changed since.
        """


class KubeWithLogs(Kube, Protocol):
    """API server of another cluster, where the logs of pods are read too."""

    def log(
        self, pod: str, namespace: str, query: Mapping[str, str]
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """What a pod has printed, and goes on to print if the query follows it. Raises RefusedListError too."""


def version_of(document: Mapping[str, Any]) -> int:
    """resourceVersion: an ordered integer within one resource (guaranteed by Kubernetes 1.35, true long before)."""
    return int(document.get("metadata", {}).get("resourceVersion") or 0)


def key_of(metadata: Mapping[str, Any]) -> str:
    """`namespace/name`, or the name of a cluster-scoped object."""
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
