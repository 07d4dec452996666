"""End of an attempt by the exits of its pods, or by a pod that is not there any more. Pure.

A kubelet that refuses a pod knows of somebody who holds what the ledger gave away, or has just started and knows of no
devices yet. The job avoids its node for a while, so that it is not placed there again at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cotenant.controller.lifecycle.failure_classification import AttemptEnd, Undecided, is_refused_by_kubelet, pod_lost
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.policies import retries, start_obstacles
from cotenant.controller.lifecycle.policies.start_timeout import excluded
from cotenant.controller.lifecycle.termination import Ending, Eviction
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase

REFUSAL_S: Final = 30.0
"""Time for which a job avoids a node whose kubelet refused it: shorter than for one that failed to start it, since
holders leave, and it costs nobody anything that a pod was refused.
"""


def ending(o: Observation, settings: Settings) -> Ending | None:
    if isinstance(o.end, AttemptEnd):
        decided = retries.decide(o, _with_start_obstacle(o, o.end), settings)
        return _without_refusing_node(o, o.end, decided)
    missing = sorted(set(range(o.size)) - set(o.gang))
    if o.phase is not Phase.RUNNING or not missing or o.status.placement is None:
        return None
    node = o.status.placement.nodes[missing[0]].node if missing[0] < o.nodes else ""
    name = o.pod_name(missing[0])
    return retries.decide(o, pod_lost(name, node, o.of_pods.disruptions.get(name), o.now), settings)


def _without_refusing_node(o: Observation, end: AttemptEnd, ending: Ending) -> Ending:
    pod = end.pod
    if not isinstance(ending, Eviction) or pod is None or not pod.node or not is_refused_by_kubelet(pod):
        return ending
    avoided = excluded(o.status, {pod.node: end.exit.reason}, o.now + REFUSAL_S, o.now)
    return replace(ending, fields={**ending.fields, "excluded_nodes": avoided})


def deadline(o: Observation, settings: Settings) -> float | None:
    """Time at which the exits that have come are classified without those that have not."""
    return o.end.until if isinstance(o.end, Undecided) else None


def _with_start_obstacle(o: Observation, end: AttemptEnd) -> AttemptEnd:
    """Pods that waited for another in vain report that it did not come; why is known of the pod that did not start."""
    if end.exit.reason != "RendezvousTimeout" or (obstacle := start_obstacles.first(o)) is None:
        return end
    return replace(end, exit=end.exit.model_copy(update={"message": f"{end.exit.message}; {obstacle.message}"}))
