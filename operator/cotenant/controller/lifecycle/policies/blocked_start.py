"""Attempts that never ran: a pod was refused, an image cannot be pulled, or a runtime starts no container. Pure.

Such an attempt costs nobody anything: its GPUs are given back at once, nothing is charged, no retry is used, and a node
is avoided only if it is the cause. The job waits behind the others, with growing pauses, and is tried again without
end, because the cause may pass. After three such attempts in a row it starts on free GPUs, and evicts nobody for an
hour. The condition `StartBlocked` quotes the cause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant.api.conversion.to_core import admitted_at, unix_seconds
from cotenant.api.resources.trainingjob_status import BlockedStart, ExcludedNode, TrainingJobStatus
from cotenant.api.scalars.quantities import show_mib
from cotenant.api.scalars.status_text import plain_sentence, plain_word
from cotenant.contract import Role
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.failure_classification import is_runtime_fault
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.policies import start_obstacles
from cotenant.controller.lifecycle.status_transitions import START_BLOCKED, told
from cotenant.controller.lifecycle.termination import Eviction
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import format_duration
from cotenant.core.model.lifecycle import LifecycleEvent, Phase

PAUSE_MIN_S, PAUSE_MAX_S = 5, 300
_IN_GOOD_FAITH: Final = 3
"""After so many attempts in a row that never ran, the next one may never run either."""
SPARES_S: Final = 3_600.0
"""How long such a job then evicts nobody. Otherwise a wrong image would end others' jobs every few minutes."""
STUCK_S: Final = 30.0
"""How long a stuck pod is waited for: some causes pass at once."""
UNSURE_S: Final = 60.0
"""How long a node is avoided if the cause may lie elsewhere, such as in a registry that does not answer."""
LASTING_S: Final = 86_400.0
"""How long a node is avoided that cannot mount the job's volume: a disk does not change its zone."""
IMAGE_S: Final = 21_600.0
"""How long a node is avoided whose processor the job's image is not built for, unless the job is edited. Such nodes are
found one by one, and pools of them are large.
"""
REFUSED: Final = "PodRefused"
RUNTIME_FAILED: Final = "RuntimeFailed"
"""Prefix of the reason for an excluded node whose container runtime could not start a container."""
GPUS_UNUSABLE: Final = "GPUsUnusable"
"""Prefix of the reason for an excluded node on which CUDA failed before any program ran."""
OTHER_PROCESSOR: Final = "ImageForOtherProcessors"
"""Prefix of the reason for an excluded node whose processor the image is not built for."""
UNSCHEDULABLE: Final = "Unschedulable"
"""The kube-scheduler's reason for a pod that no node can take, by what it knows of the nodes."""
_ANY_NODE: Final = re.compile(r"not ?found|manifest unknown|unauthorized|denied|InvalidImageName", re.I)
"""Words in the message of a pull that would fail on every node."""
_NOT_BUILT_FOR_IT: Final = re.compile(
    r"no match for platform|no matching manifest for|no image found in .*architecture"
)
"""Words of containerd, Docker and CRI-O if the image is not built for the node's processor. It may be for that of other
nodes.
"""
_OF_THE_VOLUME: Final = re.compile(r"volume node affinity")
"""Words of the kube-scheduler if a volume of the pod cannot be mounted on the node."""
_OF_THE_POD: Final = re.compile(r"persistentvolumeclaim|unbound immediate|resourceclaim", re.I)
"""Words of the kube-scheduler about the pod itself, so that no node is the cause."""


@dataclass(frozen=True, slots=True)
class Blamed:
    """Nodes to avoid, each with the reason."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    for_s: float | None = None
    """How long they are avoided; None: for `exclude_s`."""


def deadline(o: Observation, settings: Settings) -> float | None:
    if o.phase is not Phase.STARTING:
        return None
    return min((_stuck_at(o, pod) for pod in o.gang.values() if _is_stuck(pod)), default=None)


def ending(o: Observation, settings: Settings) -> Eviction | None:
    """End the attempt if the API server refuses one of its objects, or if a pod is stuck."""
    if o.phase is not Phase.STARTING:
        return None
    if (refusal := o.of_placement.creation_refusal) is not None:
        return blocked(o, REFUSED, refusal + _default_scratch(o, refusal, settings), Blamed(), settings)
    for rank in sorted(o.gang):
        pod = o.gang[rank]
        if _is_stuck(pod) and o.now >= _stuck_at(o, pod):
            obstacle = start_obstacles.of_waiting(pod)
            node = pod.node or (o.status.placement.nodes[rank].node if o.status.placement and rank < o.nodes else "")
            return blocked(o, obstacle.reason, obstacle.message, _blamed_for(pod, node), settings)
    return None


def blocked(
    o: Observation,
    kind: str,
    message: str,
    blamed: Blamed,
    settings: Settings,
    *,
    event: LifecycleEvent = LifecycleEvent.EVICTED,
    is_charged: bool = False,
    **fields: Any,
) -> Eviction:
    """Give the attempt up as one that never ran. `is_charged`: it is not believed, and its GPU time counts."""
    before = o.status.blocked_start
    attempts = before.attempts + 1 if before is not None and before.generation == o.record.generation else 1
    pause_s = min(PAUSE_MIN_S * 2 ** min(attempts - 1, 16), PAUSE_MAX_S)
    free = o.status.attempts if not is_charged else before.attempt if before is not None else 0
    start = BlockedStart(attempts=attempts, attempt=free, retry_at=o.now + pause_s, generation=o.record.generation)
    reason, cause, generation = plain_word(kind), plain_sentence(message), o.record.generation
    shown = told(o.status, START_BLOCKED, True, reason, cause, at=o.now, generation=generation)
    avoided_until = o.now + (settings.exclude_s if blamed.for_s is None else blamed.for_s)
    price = "The GPU time is charged" if is_charged else "Nothing ran and nothing is charged"
    return Eviction(
        event=event,
        kind=kind,
        message=f"{message}. {price}; the next try is in {format_duration(pause_s)}",
        warning=True,
        fields={
            **fields,
            "blocked_start": start,
            "conditions": shown.conditions,
            "excluded_nodes": excluded(o.status, blamed.nodes, avoided_until, o.now),
        },
    )


def paused_until(status: TrainingJobStatus, generation: int) -> float | None:
    """When a job whose last attempt never ran is in line again; None if nothing holds it back."""
    start = status.blocked_start
    if start is None or start.generation != generation:
        return None
    return unix_seconds(start.retry_at)


def evicts_from(status: TrainingJobStatus, generation: int) -> float | None:
    """Until when a job evicts nobody, because its last attempts never ran; None if it may evict."""
    again_at, start = paused_until(status, generation), status.blocked_start
    if again_at is None or start is None or start.attempts < _IN_GOOD_FAITH:
        return None
    return again_at + SPARES_S


def avoided(status: TrainingJobStatus, generation: int, now: float) -> frozenset[str]:
    """The nodes that the job avoids now. An edit of its spec may have named another image."""
    edited = status.blocked_start is not None and status.blocked_start.generation != generation
    return frozenset(
        one.node
        for one in status.excluded_nodes
        if one.until.timestamp() > now and not (edited and one.reason.startswith(OTHER_PROCESSOR))
    )


def excluded(status: TrainingJobStatus, nodes: Mapping[str, str], until: float, now: float) -> tuple[ExcludedNode, ...]:
    """The nodes that the job avoids, with these added (node → reason)."""
    kept = [one for one in status.excluded_nodes if one.until.timestamp() > now and one.node not in nodes]
    return (*kept, *(ExcludedNode(node=node, until=until, reason=why) for node, why in sorted(nodes.items())))


def runtime_failed(node: str, words: str) -> Blamed:
    return Blamed({node: f"{RUNTIME_FAILED}: {words}"} if node else {})


def _default_scratch(o: Observation, refusal: str, settings: Settings) -> str:
    """Where a refused amount of scratch space comes from, if the job named none: its quota counts what it never saw."""
    if "ephemeral-storage" not in refusal or o.spec is None or o.spec.resources.scratch is not None:
        return ""
    amount = show_mib(settings.scratch_mib)
    return f". The job names no scratch space, so its pods ask for {amount} each; name less in spec.resources.scratch"


def _is_stuck(pod: PodRecord) -> bool:
    return bool(pod.waiting) and not pod.ready and pod.exit is None


def _stuck_at(o: Observation, pod: PodRecord) -> float:
    return max(pod.stuck_since, admitted_at(o.status) or o.now) + STUCK_S


def _blamed_for(pod: PodRecord, node: str) -> Blamed:
    """Nodes to avoid because of a stuck pod, if the pod's message says that the node is the cause."""
    reason = pod.waiting.partition(":")[0]
    if not node or pod.role is not Role.WORKER:
        return Blamed()
    if not pod.node and reason != UNSCHEDULABLE:
        return Blamed()  # a scheduling gate, or an error of the kube-scheduler itself
    if not pod.node:
        if _OF_THE_VOLUME.search(pod.waiting):
            return Blamed({node: "volume node affinity conflict"}, LASTING_S)
        return Blamed() if _OF_THE_POD.search(pod.waiting) else Blamed({node: pod.waiting})
    if reason == "CreateContainerError" and is_runtime_fault(pod.waiting):
        return runtime_failed(node, pod.waiting.partition(": ")[2])
    if "Image" in reason and _NOT_BUILT_FOR_IT.search(pod.waiting):
        return Blamed({node: f"{OTHER_PROCESSOR}: {pod.waiting}"}, IMAGE_S)
    if "Image" in reason and not _ANY_NODE.search(pod.waiting):
        return Blamed({node: pod.waiting}, UNSURE_S)
    return Blamed()
