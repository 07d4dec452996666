"""A node that stops answering, for which a gang waits a limited time; and a GPU that broke. Pure."""

from __future__ import annotations

from cotenant import names
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.termination import Eviction
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent


def deadline(o: Observation, settings: Settings) -> float | None:
    """When the gang stops waiting for a node that does not answer; None if all nodes answer."""
    since = [o.unreachable_nodes[pod.node] for pod in o.gang.values() if pod.held and pod.node in o.unreachable_nodes]
    return min(since) + settings.node_lost_s if since else None


def ending(o: Observation, settings: Settings) -> Eviction | None:
    lost_at = deadline(o, settings)
    if lost_at is None or o.now < lost_at:
        return None
    nodes = ", ".join(sorted({pod.node for pod in o.gang.values() if pod.held and pod.node in o.unreachable_nodes}))
    message = f"{nodes} has not answered for {settings.node_lost_s:.0f} s"
    return Eviction(event=LifecycleEvent.EVICTED, kind="NodeLost", message=message)


def sick_gpu_ending(o: Observation, settings: Settings) -> Eviction | None:
    """End the attempt if a GPU of it broke, or if an administrator takes a GPU out. No job is charged.

    The ranks get their grace period to save a checkpoint.
    """
    if not o.of_placement.sick_gpus:
        return None
    sick = o.of_placement.sick_gpus
    by_hand = all(health.startswith(names.HEALTH_DRAINED) for health in sick.values())
    state = "is taken out of service" if by_hand else "is not healthy"
    message = "; ".join(f"GPU {uuid} {state}: {health}" for uuid, health in sorted(sick.items()))
    return Eviction(
        event=LifecycleEvent.EVICTED,
        kind="GPUDrained" if by_hand else "GPUUnhealthy",
        message=f"{message}; the job gets other GPUs",
        warning=not by_hand,
    )
