"""The start timeout: a gang that is not up in time goes elsewhere, and avoids the nodes that failed it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import ExcludedNode, ExitStatus, TrainingJobStatus
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.policies import retries, start_obstacles
from cotenant.controller.lifecycle.termination import Ending, Eviction
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent, Phase


def deadline(o: Observation, settings: Settings) -> float | None:
    if o.phase is not Phase.STARTING or o.all_up:
        return None
    admitted_at = (unix_seconds(o.status.placement.admitted_at) if o.status.placement else None) or o.now
    return admitted_at + settings.start_timeout_s


def ending(o: Observation, settings: Settings) -> Ending | None:
    """Requeue the gang whole; give it up after so many faults of the platform in a row.

    A late server is named, and no node is avoided for it: the kube-scheduler found it none, or may find it another the
    next time.
    """
    late_at = deadline(o, settings)
    if late_at is None or o.now < late_at:
        return None
    late: dict[int, str] = {}
    for node_rank in range(o.size):
        pod = o.gang.get(node_rank)
        if pod is None or not (pod.ready or pod.exit is not None):
            late[node_rank] = start_obstacles.of_pod(o, pod) or "the pod did not become ready"
    nodes = [node.node for node in o.status.placement.nodes] if o.status.placement else []
    blamed = {nodes[node_rank]: reason for node_rank, reason in late.items() if node_rank < len(nodes)}
    servers = [f"server pod {o.pod_name(rank)}: {reason}" for rank, reason in late.items() if rank >= len(nodes)]
    why = "; ".join([*(f"{node}: {reason}" for node, reason in sorted(blamed.items())), *servers])
    message = f"not all pods were up within {settings.start_timeout_s:.0f} s ({why})"
    faults = o.status.faults + 1
    if faults > settings.platform_retries:
        over = ExitStatus(code=-1, reason="StartTimeout", message=message, at=o.now)
        return retries.decide(o, AttemptEnd(outcome=AttemptOutcome.NON_RETRIABLE, exit=over), settings)
    avoided = excluded(o.status, blamed, o.now + settings.exclude_s, o.now)
    return Eviction(
        event=LifecycleEvent.START_TIMED_OUT,
        kind="StartTimeout",
        message=message,
        fields={"faults": faults, "excluded_nodes": avoided},
    )


def excluded(status: TrainingJobStatus, nodes: Mapping[str, str], until: float, now: float) -> tuple[ExcludedNode, ...]:
    """The nodes that the job avoids, with those added that just failed it (node → why)."""
    kept = [one for one in status.excluded_nodes if one.until.timestamp() > now and one.node not in nodes]
    return (*kept, *(ExcludedNode(node=node, until=until, reason=why) for node, why in sorted(nodes.items())))
