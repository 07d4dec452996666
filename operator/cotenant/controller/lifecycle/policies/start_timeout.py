"""The start timeout: a gang that is not up in time gives its GPUs back and waits again. Pure."""

from __future__ import annotations

from typing import Final

from cotenant.api.conversion.to_core import admitted_at
from cotenant.api.conversion.volumes import mounted_objects
from cotenant.api.resources.trainingjob_status import ExitStatus
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.policies import retries, start_obstacles
from cotenant.controller.lifecycle.policies.blocked_start import UNSURE_S, Blamed, blocked, excluded
from cotenant.controller.lifecycle.termination import Ending, Eviction
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent, Phase

PULL_S: Final = 3600.0
"""Longest time for a pull. The runtime itself gives up a pull that makes no progress."""


def deadline(o: Observation, settings: Settings) -> float | None:
    """When the first pod is late."""
    if o.phase is not Phase.STARTING or o.all_up:
        return None
    return min((_late_at(o, o.gang.get(rank), settings) for rank in _awaited(o)), default=None)


def ending(o: Observation, settings: Settings) -> Ending | None:
    """Requeue the whole gang if a pod is late.

    If all late containers run and only their launchers do not answer, it is a fault of the platform; several in a row
    end the job. Otherwise the attempt never ran. A late parameter server is named, but no node is avoided for it: the
    kube-scheduler chooses its node each time.
    """
    late_at = deadline(o, settings)
    if late_at is None or o.now < late_at:
        return None
    late = [rank for rank in _awaited(o) if o.now >= _late_at(o, o.gang.get(rank), settings)]
    why = {rank: start_obstacles.of_pod(o, o.gang.get(rank)) or "the pod did not become ready" for rank in late}
    nodes = [node.node for node in o.status.placement.nodes] if o.status.placement else []
    of_nodes = sorted((nodes[rank], rank) for rank in late if rank < len(nodes))
    servers = [f"server pod {o.pod_name(rank)}: {why[rank]}" for rank in late if rank >= len(nodes)]
    told = "; ".join([*(f"{node}: {why[rank]}" for node, rank in of_nodes), *servers])
    message = f"not all pods were up within {settings.start_timeout_s:.0f} s ({told})"
    made = {node: rank for node, rank in of_nodes if rank in o.gang and o.gang[rank].node}  # the others blame no node
    if not all(rank in o.gang and o.gang[rank].started_at for rank in late):
        known = any(pod.node and not pod.preparing_since for pod in o.gang.values()) or not _mounts(o)
        reasons = {node: why[rank] for node, rank in made.items() if not o.gang[rank].started_at}
        blamed = Blamed(reasons, None if known else UNSURE_S)
        return blocked(o, "StartTimeout", message, blamed, settings, event=LifecycleEvent.START_TIMED_OUT)
    faults = o.status.faults + 1
    if faults > settings.platform_retries:
        over = ExitStatus(code=-1, reason="StartTimeout", message=message, at=o.now)
        return retries.decide(o, AttemptEnd(outcome=AttemptOutcome.NON_RETRIABLE, exit=over), settings)
    avoided = excluded(o.status, {node: why[rank] for node, rank in made.items()}, o.now + settings.exclude_s, o.now)
    return Eviction(
        event=LifecycleEvent.START_TIMED_OUT,
        kind="StartTimeout",
        message=message,
        fields={"faults": faults, "excluded_nodes": avoided},
    )


def _awaited(o: Observation) -> list[int]:
    """Node ranks whose pods are neither up nor ended."""
    pods = {rank: o.gang.get(rank) for rank in range(o.size)}
    return [rank for rank, pod in pods.items() if pod is None or not (pod.ready or pod.exit is not None)]


def _late_at(o: Observation, pod: PodRecord | None, settings: Settings) -> float:
    """When this pod is late. The time of a pull does not count: the clock of a container starts when it runs."""
    admitted = admitted_at(o.status) or o.now
    if pod is not None and pod.pulls:
        return admitted + max(PULL_S, settings.start_timeout_s)
    return max(admitted, pod.started_at if pod else 0.0) + settings.start_timeout_s


def _mounts(o: Observation) -> bool:
    return o.spec is not None and bool(mounted_objects(o.spec))
