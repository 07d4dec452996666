"""Why a gang's pods do not start: a reason in one word, and a sentence that a tenant can act on. Pure.

A ConfigMap or Secret that does not exist keeps a pod in ContainerCreating for ever. The kubelet reports the cause in an
Event only. Until that was read, the message names what the spec mounts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cotenant import names
from cotenant.api.conversion.to_core import admitted_at
from cotenant.api.conversion.volumes import mounted_objects
from cotenant.api.scalars.status_text import plain_word
from cotenant.contract import Role
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.failure_classification import QUOTE_CHARS_MAX
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase

PULLING = "PullingImage"
CHANGED = "PodChanged"
EXEMPT = f"Exempt pods labelled {names.LABEL_MANAGED_BY}={names.MANAGED_BY} from the webhook or policy that did it"
OF_KUEUE = "kueue.x-k8s.io/"
"""Prefix of Kueue's scheduling gates."""
KUEUE = (
    "Kueue manages the pods of this namespace. In its configuration, leave the namespace out of"
    " managedJobsNamespaceSelector, or take pods labelled"
    f" {names.LABEL_MANAGED_BY}={names.MANAGED_BY} out by the objectSelector of its webhooks"
)
GATED = "SchedulingGated"
"""Reason of a pod that the kube-scheduler does not look at before somebody takes its scheduling gates off."""
UNBOUND = "NotScheduled"
"""Reason of a pod that the kube-scheduler has neither bound nor refused."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
"""Taint by which an administrator says that a node is down. Kubernetes then removes its pods and detaches volumes."""
STILL_RUNS = "PodStillRuns"
"""Reason of a pod that cannot be made again yet."""
PREPARING = "ContainerCreating"
"""The word that `kubectl get pods` shows."""
REPORT_AFTER_S = 30.0
"""Pause before a wait is reported: attaching a volume takes time."""
KIND: Final[Mapping[Role | None, str]] = {Role.PARAMETER_SERVER: "server", Role.EVALUATOR: "evaluator"}
"""What messages call the pods that have no ranks."""
CANONICAL_REASON = {"ImagePullBackOff": "ErrImagePull", "CreateContainerError": "CreateContainerConfigError"}
"""Reasons of the kubelet that alternate while nothing changes. Both are reported under one name."""


@dataclass(frozen=True, slots=True)
class StartObstacle:
    reason: str
    message: str


def first(o: Observation) -> StartObstacle | None:
    """Why the gang is not up, from the first pod by name that has a reason."""
    pods = sorted(o.gang.values(), key=lambda pod: pod.name)
    for pod in pods:
        if pod.waiting and not pod.ready and pod.exit is None:
            return of_waiting(pod)
    for pod in pods:
        if pod.added_containers and not pod.ready and pod.exit is None:
            return StartObstacle(CHANGED, describe_added(pod))
    for pod in pods:
        at = reportable_at(o, pod)
        if at is not None and o.now >= at:
            return of_silent(o, pod)
    if o.departed:
        return StartObstacle(STILL_RUNS, _of_departed(o.departed[0]))
    delay = o.of_placement.creation_delay
    return StartObstacle("NotCreated", delay[:QUOTE_CHARS_MAX]) if delay else None


def _of_departed(pod: PodRecord) -> str:
    return (
        f"pod {pod.name} was deleted by force, and its processes still run on node {pod.node}. It is made again once"
        " the node's agent reports that they have ended"
    )


def of_waiting(pod: PodRecord) -> StartObstacle:
    """The obstacle of a pod that its kubelet or the kube-scheduler reports as stuck."""
    reason = pod.waiting.partition(":")[0]
    kind = f"{KIND[pod.role]} " if pod.role in KIND else ""
    message = f"{kind}pod {pod.name} does not start: {pod.waiting[:QUOTE_CHARS_MAX]}"
    if pod.added_containers:
        message += f". {describe_added(pod)}"
    if reason == GATED:
        message += f". The operator sets no gate. {KUEUE if OF_KUEUE in pod.waiting else EXEMPT}"
    return StartObstacle(CANONICAL_REASON.get(reason, reason), message)


def of_pod(o: Observation, pod: PodRecord | None) -> str | None:
    """Why this pod is not up; None if the reason is unknown. `pod` is None if it was not made."""
    if pod is None:
        return o.of_placement.creation_delay
    return pod.waiting or (of_silent(o, pod).message if reportable_at(o, pod) is not None else None)


def deadline(o: Observation, settings: Settings) -> float | None:
    """When the next waiting pod becomes reportable."""
    if o.phase is not Phase.STARTING:
        return None
    times = [at for pod in o.gang.values() if (at := reportable_at(o, pod)) is not None and at > o.now]
    return min(times, default=None)


def reportable_at(o: Observation, pod: PodRecord) -> float | None:
    """When this pod has waited long enough to be reported; None if it does not wait."""
    if pod.ready or pod.exit is not None:
        return None
    if pod.preparing_since:
        return pod.preparing_since + REPORT_AFTER_S
    admitted = admitted_at(o.status)
    waits = pod.pulls or not (pod.node or pod.waiting)
    return admitted + REPORT_AFTER_S if waits and admitted is not None else None


def describe_added(pod: PodRecord) -> str:
    """What a webhook or a mutating policy added to the pod, and how to prevent it."""
    added = "containers" if len(pod.added_containers) > 1 else "container"
    return f"A webhook added {added} {', '.join(pod.added_containers)} to pod {pod.name}. {EXEMPT}"


def of_silent(o: Observation, pod: PodRecord) -> StartObstacle:
    """The obstacle of a pod that waits, and of which its status does not say why."""
    if pod.pulls:
        meanwhile = ". The job keeps its GPUs and starts once the image is there" if pod.is_of_gang else ""
        pulls = f"node {pod.node} pulls the image of pod {pod.name} for more than {REPORT_AFTER_S:.0f} s{meanwhile}"
        return StartObstacle(PULLING, pulls)
    if not pod.node:
        silent = f"the kube-scheduler has neither bound pod {pod.name} nor said why not; look whether it runs"
        return StartObstacle(UNBOUND, silent)
    if cause := o.of_pods.causes.get(pod.uid):
        said = f"pod {pod.name} does not start on node {pod.node}: {cause[:QUOTE_CHARS_MAX]}"
        reason = plain_word(cause.partition(":")[0]) or PREPARING
        return StartObstacle(reason, said + _attached_elsewhere(o, cause))
    named = [f"{kind} {name}" for kind, name in mounted_objects(o.spec)] if o.spec else []
    what = f"; look whether they are there: {', '.join(named)}" if named else ""
    return StartObstacle(
        PREPARING,
        f"pod {pod.name} on node {pod.node} has waited more than {REPORT_AFTER_S:.0f} s for its volumes or its"
        f" network{what}. `kubectl describe pod -n {pod.namespace} {pod.name}` has the kubelet's words",
    )


def _attached_elsewhere(o: Observation, cause: str) -> str:
    """What to do about a volume that a node which does not answer keeps. Kubernetes detaches it only from a node that
    is known to be down, because two nodes must not write to it.
    """
    lost = sorted({pod.node for pod in o.pods if pod.held and pod.node in o.unreachable_nodes})
    if "Multi-Attach" not in cause or not lost:
        return ""
    return (
        f". Node {', '.join(lost)} does not answer and keeps the volume. If the node is down: kubectl taint node"
        f" {' '.join(lost)} {OUT_OF_SERVICE}, or delete the Node"
    )
