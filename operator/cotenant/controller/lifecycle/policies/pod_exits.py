"""End of an attempt by the exits of its pods, or because a pod that ran has disappeared. Pure.

If a kubelet refuses a pod, either somebody unknown holds the GPU, or the kubelet has just started and knows no devices
yet. The job avoids the node for a while, so that it is not placed there again at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cotenant import names
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.failure_classification import (
    AttemptEnd,
    AttemptOutcome,
    Undecided,
    is_refused_by_kubelet,
    pod_lost,
)
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.policies import retries, start_obstacles
from cotenant.controller.lifecycle.policies.blocked_start import (
    GPUS_UNUSABLE,
    RUNTIME_FAILED,
    UNSURE_S,
    Blamed,
    blocked,
    runtime_failed,
)
from cotenant.controller.lifecycle.termination import Ending, Eviction
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase

CUDA_CHECK_S: Final = 120.0
"""Time from its start within which a pod may say that CUDA does not work."""
BELIEVED_MAX: Final = 3
"""How many faults in a row a job may have before its pod's word on CUDA costs GPU time: the image may be the cause."""


def ending(o: Observation, settings: Settings) -> Ending | None:
    if isinstance(o.end, AttemptEnd) and (never_ran := _never_ran(o, o.end, settings)) is not None:
        return never_ran
    if isinstance(o.end, AttemptEnd):
        return retries.decide(o, _with_start_obstacle(o, o.end), settings)
    missing = sorted(set(range(o.size)) - set(o.known_gang))
    if o.phase is not Phase.RUNNING or not missing or o.status.placement is None:
        return None
    node = o.status.placement.nodes[missing[0]].node if missing[0] < o.nodes else ""
    name = o.pod_name(missing[0])
    return retries.decide(o, pod_lost(name, node, o.of_pods.disruptions.get(name), o.now), settings)


def _never_ran(o: Observation, end: AttemptEnd, settings: Settings) -> Eviction | None:
    """The kubelet refused the pod, the runtime could not start it, or CUDA failed before the program began. Nobody is
    charged; the job avoids the node.
    """
    pod = end.pod
    if pod is None:
        return None
    if _says_gpus_unusable(pod):  # its pods may have been ready by then
        blamed = Blamed({pod.node: f"{GPUS_UNUSABLE}: {end.exit.message}"} if pod.node else {})
        message = f"CUDA does not work in pod {pod.name} on node {pod.node}: {end.exit.message}"
        if o.status.faults >= BELIEVED_MAX:
            message += f". The {BELIEVED_MAX} attempts before failed too, so the cause may be the image"
            return blocked(o, GPUS_UNUSABLE, message, blamed, settings, is_charged=True, last_exit=end.exit)
        faults = o.status.faults + 1
        return blocked(o, GPUS_UNUSABLE, message, blamed, settings, last_exit=end.exit, faults=faults)
    if o.phase is not Phase.STARTING:
        return None
    if end.outcome is AttemptOutcome.NEVER_STARTED:
        words = pod.exit.runtime_message if pod.exit else ""
        blamed = runtime_failed(pod.node, words.rpartition("OCI runtime create failed: ")[2])
        return blocked(o, RUNTIME_FAILED, end.exit.message, blamed, settings, last_exit=end.exit)
    if is_refused_by_kubelet(pod):
        blamed = Blamed({pod.node: end.exit.reason} if pod.node else {}, UNSURE_S)
        return blocked(o, end.exit.reason, end.exit.message, blamed, settings, last_exit=end.exit)
    return None


def _says_gpus_unusable(pod: PodRecord) -> bool:
    """A pod looks at CUDA before anything else. Later its word is a program's, which could run for nothing so."""
    if pod.exit is None or pod.exit.code != names.EXIT_GPUS_UNUSABLE:
        return False
    return pod.started_at > 0 and pod.exit.at - pod.started_at <= CUDA_CHECK_S


def deadline(o: Observation, settings: Settings) -> float | None:
    """When the attempt is judged by the exits seen so far, without waiting for the others."""
    return o.end.until if isinstance(o.end, Undecided) else None


def _with_start_obstacle(o: Observation, end: AttemptEnd) -> AttemptEnd:
    """The start failure that made other pods wait in vain: those report only that a peer did not come."""
    if end.exit.reason != "RendezvousTimeout" or (obstacle := start_obstacles.first(o)) is None:
        return end
    return replace(end, exit=end.exit.model_copy(update={"message": f"{end.exit.message}; {obstacle.message}"}))
