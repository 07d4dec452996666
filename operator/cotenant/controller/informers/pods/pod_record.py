"""A pod as far as the operator needs it, decoded once when it is seen.

Of pods that are not Cotenant's, of parameter servers and of evaluators, the core needs only the CPU, the memory and the
devices that they take from their node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cotenant import contract, names
from cotenant.api.conversion.pod_requests import extended_requests
from cotenant.contract.decoding.plain_text import plain_text
from cotenant.controller.client.kube import version_of
from cotenant.controller.informers.pods.added_requests import added_requests, host_requests
from cotenant.controller.informers.pods.disruption import Disruption, disruption_of
from cotenant.controller.informers.pods.pod_identity import PodIdentity, identity_of, on_node
from cotenant.controller.manifests.attempt import NO_AMOUNTS, HostAmounts

NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun"})
"""The kubelet's reasons for a container that ended before its first instruction."""
QUOTE_CHARS_MAX = 1000
"""Most characters that are kept of a text of the kubelet, the runtime or the kube-scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """End of the worker container. `code` is -1 if the pod failed without an exit code (evicted, lost)."""

    code: int
    reason: str = ""
    at: float = 0.0
    """Unix seconds; 0 if unknown."""
    termination: contract.Termination | None = None
    runtime_message: str = ""
    """Message of the kubelet or the container runtime, if the launcher left none."""
    eviction: str = ""
    """The kubelet's message, if it has evicted the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRequest:
    """Deletion of a pod as the API server records it, no matter who asked for it."""

    asked_at: float
    """Unix time of the first request. Later requests can only shorten the grace period."""
    grace_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """One pod. The most important property is `held`: whether its GPUs may be in use."""

    namespace: str
    name: str
    uid: str
    version: int
    worker: PodIdentity | None = None
    """None: not one of ours."""
    queue_label: str = ""
    """Queue of its label. Labels can be edited, so it counts only if that queue serves the pod's namespace."""
    node: str = ""
    """Empty until the kube-scheduler has bound it."""
    ready: bool = False
    ip: str = ""
    """Its own address; empty if it has none or uses its node's network."""
    deleting: bool = False
    deletion: DeletionRequest | None = None
    grace_s: int = 30
    """Grace period of its spec, which nobody can change."""
    disruption: Disruption | None = None
    """Why it is asked to leave; the operator may be the cause too."""
    exit: Exit | None = None
    """Set when the worker container has ended. Its GPUs are then free."""
    earlier_exit: Exit | None = None
    """End of the container that its kubelet starts again, or has started again: of an evaluator."""
    restarts: int = 0
    """How often its kubelet has started the container again."""
    waiting: str = ""
    """Reason why the container does not start, such as `ErrImagePull`, from the kubelet or the kube-scheduler."""
    preparing_since: float = 0.0
    """Unix time since which the kubelet prepares its volumes and network; 0 if it does not."""
    started_at: float = 0.0
    """Unix time at which the worker container started; 0 if it has not, or if the runtime could not start it."""
    stuck_since: float = 0.0
    """Unix time since which the kube-scheduler finds no node for it, or its kubelet cannot start it; 0 if unknown. Of a
    pod that is listed for the first time: since which its kubelet has it.
    """
    lingers: bool = False
    """True if the worker container has ended, but a container that somebody added keeps the pod alive."""
    added_containers: tuple[str, ...] = ()
    """Containers that the operator did not write, such as the proxy of a service mesh."""
    requests: HostAmounts = NO_AMOUNTS
    """Of all containers together."""
    added: HostAmounts = NO_AMOUNTS
    """Requested by a pod with ranks beyond what the operator wrote."""
    devices: Mapping[str, int] = field(default_factory=dict)
    """Extended resource → requested."""

    @property
    def role(self) -> contract.Role | None:
        """None: not one of ours."""
        return self.worker.role if self.worker is not None else None

    @property
    def held(self) -> bool:
        """True if its processes may still run, so that its GPUs are in use.

        A pod that is deleted before it has a node never gets one, even if a finalizer keeps its object.
        """
        return self.exit is None and bool(self.node or not self.deleting)

    @property
    def pulls(self) -> bool:
        """True if its volumes and its network are ready and its container is not: its node pulls the image."""
        bound = bool(self.node) and not self.deleting
        return bound and not (self.started_at or self.ready or self.waiting or self.preparing_since or self.exit)

    @property
    def is_of_gang(self) -> bool:
        """True for a pod of ranks or of a parameter server, without which the attempt does not go on."""
        return self.role in {contract.Role.WORKER, contract.Role.PARAMETER_SERVER}

    def is_of(self, attempt: int) -> bool:
        return self.worker is not None and self.worker.attempt == attempt

    def is_before(self, attempt: int) -> bool:
        return self.worker is not None and self.worker.attempt < attempt


def read_pod(document: Mapping[str, Any], known: PodRecord | None = None) -> PodRecord:
    """Decode a v1 Pod. `known` is its earlier record, from which facts that cannot change are taken."""
    metadata = document["metadata"]
    spec, status = document.get("spec", {}), document.get("status", {})
    same = known is not None and known.uid == metadata["uid"]
    worker = on_node(known.worker, spec) if known is not None and same else identity_of(document)
    container, starts_again = _container_status(status), worker is not None and worker.role is contract.Role.EVALUATOR
    requests = host_requests(document)
    queue = (metadata.get("labels") or {}).get(names.LABEL_QUEUE, "")
    return PodRecord(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        version=version_of(document),
        worker=worker,
        queue_label=queue if isinstance(queue, str) else "",
        node=spec.get("nodeName", ""),
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()),
        ip="" if spec.get("hostNetwork") else status.get("podIP", ""),
        deleting="deletionTimestamp" in metadata,
        deletion=_deletion(metadata),
        grace_s=spec.get("terminationGracePeriodSeconds", 30),
        disruption=disruption_of(document),
        exit=_final(known if same else None, _exit(status, container, ours=worker is not None and not starts_again)),
        earlier_exit=_earlier_exit(container) if starts_again else None,
        restarts=int(container.get("restartCount") or 0) if starts_again else 0,
        waiting=_waiting(spec, status, container),
        preparing_since=_preparing_since(status),
        started_at=_started_at(container),
        stuck_since=_stuck_since(status),
        lingers=worker is not None and _ended(container) is not None and _others_run(status),
        added_containers=_added(spec) if worker is not None else (),
        requests=requests,
        added=added_requests(document, worker, requests),
        devices=extended_requests(document),
    )


def _deletion(metadata: Mapping[str, Any]) -> DeletionRequest | None:
    if "deletionTimestamp" not in metadata:
        return None
    grace_s = metadata.get("deletionGracePeriodSeconds") or 0
    return DeletionRequest(asked_at=unix(metadata["deletionTimestamp"]) - grace_s, grace_s=grace_s)


def _container_status(status: Mapping[str, Any]) -> Mapping[str, Any]:
    for container in status.get("containerStatuses") or ():
        if container["name"] == names.CONTAINER:
            return container  # type: ignore[no-any-return]
    return {}


def _exit(status: Mapping[str, Any], container: Mapping[str, Any], *, ours: bool) -> Exit | None:
    ended = _ended(container)
    goes_on = status.get("phase") not in {"Succeeded", "Failed"}
    if goes_on and (ended is None or not ours):  # in a pod of ours, containers that a webhook added may go on
        return None
    said = plain_text(status.get("message") or "", QUOTE_CHARS_MAX)
    eviction = said if status.get("reason") == "Evicted" else ""
    if ended is None:
        return Exit(
            code=-1,
            reason=status.get("reason") or "PodLost",
            runtime_message=said,
            eviction=eviction,
        )
    return _container_exit(ended, status, eviction)


def _final(known: PodRecord | None, now: Exit | None) -> Exit | None:
    """A pod that has succeeded stays so. A kubelet that starts again, and finds a device not yet registered, may report
    it as refused and without its container (`UnexpectedAdmissionError`).
    """
    before = known.exit if known is not None else None
    return before if before is not None and before.code == 0 and now is not None and now.code == -1 else now


def _container_exit(ended: Mapping[str, Any], status: Mapping[str, Any], eviction: str = "") -> Exit:
    text = ended.get("message") or ""
    read = contract.Termination.from_json(text)
    termination = None if isinstance(read, contract.Malformed) else read
    runtime_message = "" if termination else text or status.get("message") or ""
    if isinstance(read, contract.Malformed) and text.lstrip()[:1] in {"{", "["}:
        runtime_message = f"its termination message {read.reason}"
    return Exit(
        code=int(ended.get("exitCode", -1)),
        reason=ended.get("reason") or status.get("reason") or "",
        at=unix(ended.get("finishedAt")),
        termination=termination,
        runtime_message=plain_text(runtime_message, QUOTE_CHARS_MAX),
        eviction=eviction,
    )


def _earlier_exit(container: Mapping[str, Any]) -> Exit | None:
    """The last end of the container of a pod whose kubelet starts it again."""
    ended = _ended(container) or (container.get("lastState") or {}).get("terminated")
    return None if ended is None else _container_exit(ended, {})


def _others_run(status: Mapping[str, Any]) -> bool:
    """True if a container that a webhook added still runs. Otherwise the pod's phase only lags behind its container."""
    told = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return any(one["name"] != names.CONTAINER and (one.get("state") or {}).get("running") is not None for one in told)


def _ended(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return (container.get("state") or {}).get("terminated")


def _started_at(container: Mapping[str, Any]) -> float:
    ended = _ended(container) or {}
    if ended.get("reason") in NEVER_STARTED:
        return 0.0
    return unix(((container.get("state") or {}).get("running") or ended).get("startedAt"))


def _added(spec: Mapping[str, Any]) -> tuple[str, ...]:
    every = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return tuple(plain_text(str(one["name"]), 63) for one in every if one["name"] != names.CONTAINER)


def _stuck_since(status: Mapping[str, Any]) -> float:
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return unix(condition.get("lastTransitionTime"))
    return unix(status.get("startTime"))


def unix(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _preparing_since(status: Mapping[str, Any]) -> float:
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    preparing = status.get("phase") == "Pending" and conditions.get("PodReadyToStartContainers") != "True"
    return unix(status.get("startTime")) if preparing else 0.0


def _waiting(spec: Mapping[str, Any], status: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    for one in (container, *(status.get("initContainerStatuses") or ())):
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in {"ContainerCreating", "PodInitializing"}:
            of = "" if one is container else f"container {one['name']}: "
            return plain_text(f"{waiting['reason']}: {of}{waiting.get('message', '')}".rstrip(": "), QUOTE_CHARS_MAX)
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            gates = ", ".join(str(one.get("name", "")) for one in spec.get("schedulingGates") or ())
            message = f"scheduling gates {gates}" if gates else condition.get("message", "")
            said = f"{condition.get('reason', 'Unschedulable')}: {message}".rstrip(": ")
            return plain_text(said, QUOTE_CHARS_MAX)
    return ""
