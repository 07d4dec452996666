"""End of an attempt by the exits of its pods, or by a pod that is not there any more. Pure."""

from __future__ import annotations

from dataclasses import replace

from cotenant.controller.lifecycle import retries, start_obstacles
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, Undecided, pod_lost
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.termination import Ending
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase


def ending(o: Observation, settings: Settings) -> Ending | None:
    if isinstance(o.end, AttemptEnd):
        return retries.decide(o, _with_start_obstacle(o, o.end), settings)
    missing = sorted(set(range(o.size)) - set(o.gang))
    if o.phase is not Phase.RUNNING or not missing or o.status.placement is None:
        return None
    node = o.status.placement.nodes[missing[0]].node if missing[0] < o.nodes else ""
    name = o.pod_name(missing[0])
    return retries.decide(o, pod_lost(name, node, o.of_pods.disruptions.get(name), o.now), settings)


def deadline(o: Observation, settings: Settings) -> float | None:
    """Time at which the exits that have come are classified without those that have not."""
    return o.end.until if isinstance(o.end, Undecided) else None


def _with_start_obstacle(o: Observation, end: AttemptEnd) -> AttemptEnd:
    """Pods that waited for another in vain report that it did not come; why is known of the pod that did not start."""
    if end.exit.reason != "RendezvousTimeout" or (obstacle := start_obstacles.first(o)) is None:
        return end
    return replace(end, exit=end.exit.model_copy(update={"message": f"{end.exit.message}; {obstacle.message}"}))
