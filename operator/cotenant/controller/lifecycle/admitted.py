"""Pure: a job that holds its GPUs, starting or running. The first thing that applies decides what happens to it."""

from __future__ import annotations

from dataclasses import replace

from cotenant import names
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import ExitStatus
from cotenant.controller.informers.pod_record import PodRecord
from cotenant.controller.lifecycle import mounts, status_transitions
from cotenant.controller.lifecycle.failure_classification import (
    AttemptEnd,
    AttemptOutcome,
    Undecided,
    classify,
    pod_lost,
)
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.termination import end_attempt, evict, fail
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted
from cotenant.core.model.lifecycle import LifecycleEvent, Phase

CANONICAL_REASON = {"ImagePullBackOff": "ErrImagePull", "CreateContainerError": "CreateContainerConfigError"}
"""Reasons of the kubelet that take turns while nothing changes: told once."""
QUOTE_CHARS_MAX = 500
"""Characters of somebody else's words in a message."""


def reconcile_admitted(s: Observation, settings: Settings) -> ReconcileResult:
    """Starting or running. The first of these that applies decides; the order is from certain to merely late."""
    if s.status.placement is None:  # somebody edited the status: nothing is committed, so nothing may run
        return evict(
            s,
            LifecycleEvent.EVICTED,
            kind="PlacementLost",
            message="status.placement was removed by hand",
            warning=True,
        )
    if s.placement_error:
        message = f"status.placement cannot be carried out: {s.placement_error}; the job is placed anew"
        return evict(s, LifecycleEvent.EVICTED, kind="PlacementImpossible", message=message, warning=True)
    if s.spec is not None and s.spec.suspend:
        message = "spec.suspend was set: the job saves a checkpoint and gives its GPUs back"
        return evict(s, LifecycleEvent.SUSPENDED, kind="Suspended", message=message)
    if s.creation_rejection:
        return end_attempt(
            s,
            AttemptEnd(
                outcome=AttemptOutcome.NON_RETRIABLE,
                exit=ExitStatus(code=-1, reason="Refused", message=s.creation_rejection),
            ),
            settings,
        )
    if broken := _limit_violation(s):
        return end_attempt(s, broken, settings)
    lost_at = _node_lost_at(s, settings)
    if lost_at is not None and s.now >= lost_at:
        nodes = ", ".join(sorted({pod.node for pod in s.gang.values() if pod.held and pod.node in s.dead_nodes}))
        return evict(
            s,
            LifecycleEvent.EVICTED,
            kind="NodeLost",
            message=f"{nodes} has not answered for {settings.node_lost_s:.0f} s",
        )
    judged = classify(s.gang, s.size, s.now)
    if isinstance(judged, AttemptEnd):
        return end_attempt(s, _with_start_obstacle(s, judged), settings)
    step = _running(s, settings) if s.phase is Phase.RUNNING else _starting(s, settings)
    if lost_at is not None:
        step = replace(step, requeue_at=min(lost_at, step.requeue_at or lost_at))
    if isinstance(judged, Undecided):
        return replace(step, requeue_at=min(judged.until, step.requeue_at or judged.until), create_pods=False)
    return step


def _limit_violation(s: Observation) -> AttemptEnd | None:
    """A pod over its GPU memory, or one that sees GPUs that it was not given."""
    for pod in s.gang.values():
        violation = s.violations.get(pod.uid)
        if violation is not None and pod.held:
            message = (
                f"pod {pod.name} used {violation.memory_mib} MiB of {violation.uuid}, its share is"
                f" {violation.quota_mib} MiB; ask for more in spec.gpu, or use less"
            )
            told = ExitStatus(
                code=names.EXIT_QUOTA, reason="GPUMemoryQuotaExceeded", message=message, node=pod.node, at=s.now
            )
            return AttemptEnd(outcome=AttemptOutcome.FAILED, exit=told, pod=pod)
    if s.isolation_mismatch:
        return AttemptEnd(
            outcome=AttemptOutcome.PLATFORM_FAULT,
            exit=ExitStatus(code=-1, reason="IsolationMismatch", message=s.isolation_mismatch, at=s.now),
        )
    return None


def _node_lost_at(s: Observation, settings: Settings) -> float | None:
    """When the gang stops waiting for a node that does not answer; nothing when all of them do."""
    since = [s.dead_nodes[pod.node] for pod in s.gang.values() if pod.held and pod.node in s.dead_nodes]
    return min(since) + settings.node_lost_s if since else None


def _starting(s: Observation, settings: Settings) -> ReconcileResult:
    gang = s.gang
    admitted_at = (unix_seconds(s.status.placement.admitted_at) if s.status.placement else None) or s.now
    late_at = admitted_at + settings.start_timeout_s
    if len(gang) == s.size and all(pod.ready or pod.exit is not None for pod in gang.values()):
        message = f"{counted(s.workers, 'worker')} running in {counted(s.nodes, 'pod')}"
        if s.servers:
            message += f", {counted(s.servers, 'parameter server')} beside them"
        fields = {} if s.status.started_at else {"started_at": status_transitions.moment(s.now)}
        changed = status_transitions.moved(
            s.status, LifecycleEvent.WORKERS_READY, reason="Running", message=message, now=s.now, **fields
        )
        return ReconcileResult(
            status=changed, event=EventToRecord(reason="Running", message=message), requeue_at=_max_runtime_at(s)
        )
    if s.now >= late_at:
        return _start_timed_out(s, settings)
    # After a resize the pods of the attempt before must be gone; those on a dead node are not waited for.
    crowded = any(pod.held and pod.node not in s.dead_nodes for pod in s.pods if pod not in gang.values())
    times = [at for pod in gang.values() if (at := mounts.reportable_at(pod)) is not None and at > s.now]
    step = ReconcileResult(
        create_pods=len(gang) < s.size and not crowded, delete_pods=s.strays, requeue_at=min([late_at, *times])
    )
    reason, message = _start_obstacle(s)
    if not reason or reason == s.status.reason:
        return step
    changed = status_transitions.explained(s.status, reason=reason, message=message, now=s.now)
    return replace(step, status=changed, event=EventToRecord(reason=reason, message=message, warning=True))


def _start_obstacle(s: Observation) -> tuple[str, str]:
    """Why the gang is not up, in one word and in a sentence: the tenant need not look for it at the pods."""
    for pod in sorted(s.gang.values(), key=lambda pod: pod.name):
        if pod.waiting and not pod.ready and pod.exit is None:
            reason = pod.waiting.partition(":")[0]
            server = "server " if pod.worker and pod.worker.server else ""
            return CANONICAL_REASON.get(
                reason, reason
            ), f"{server}pod {pod.name} does not start: {pod.waiting[:QUOTE_CHARS_MAX]}"
    for pod in sorted(s.gang.values(), key=lambda pod: pod.name):
        at = mounts.reportable_at(pod)
        if at is not None and s.now >= at:
            return mounts.REASON, mounts.describe(pod, s.spec, pod.namespace)
    return ("NotCreated", s.creation_delay[:QUOTE_CHARS_MAX]) if s.creation_delay else ("", "")


def _with_start_obstacle(s: Observation, ending: AttemptEnd) -> AttemptEnd:
    """Pods that waited for another in vain know that it did not come; the kube-scheduler or a kubelet knows why."""
    why = _start_obstacle(s)[1] if ending.exit.reason == "RendezvousTimeout" else ""
    if not why:
        return ending
    return replace(ending, exit=ending.exit.model_copy(update={"message": f"{ending.exit.message}; {why}"}))


def _start_timed_out(s: Observation, settings: Settings) -> ReconcileResult:
    """Some pod is not up: the gang goes elsewhere, and keeps away from the nodes that failed it.

    A server names itself and no node: the kube-scheduler found it none, or may find it another the next time.
    """
    late: dict[int, str] = {}
    for node_rank in range(s.size):
        pod = s.gang.get(node_rank)
        if pod is None or not (pod.ready or pod.exit is not None):
            late[node_rank] = _obstacle_of(s, pod) or "the pod did not become ready"
    nodes = [node.node for node in s.status.placement.nodes] if s.status.placement else []
    blamed = {nodes[node_rank]: reason for node_rank, reason in late.items() if node_rank < len(nodes)}
    servers = [f"server pod {s.pod_name(rank)}: {reason}" for rank, reason in late.items() if rank >= len(nodes)]
    why = "; ".join([*(f"{node}: {reason}" for node, reason in sorted(blamed.items())), *servers])
    message = f"not all pods were up within {settings.start_timeout_s:.0f} s ({why})"
    faults = s.status.faults + 1
    if faults > settings.platform_retries:
        ending = AttemptEnd(
            outcome=AttemptOutcome.NON_RETRIABLE,
            exit=ExitStatus(code=-1, reason="StartTimeout", message=message, at=s.now),
        )
        return end_attempt(s, ending, settings)
    avoided = status_transitions.excluded(s.status, blamed, s.now + settings.exclude_s, s.now)
    return evict(
        s, LifecycleEvent.START_TIMED_OUT, kind="StartTimeout", message=message, faults=faults, excluded_nodes=avoided
    )


def _obstacle_of(s: Observation, pod: PodRecord | None) -> str:
    if pod is None:
        return s.creation_delay
    return pod.waiting or (mounts.describe(pod, s.spec, pod.namespace) if mounts.reportable_at(pod) is not None else "")


def _running(s: Observation, settings: Settings) -> ReconcileResult:
    missing = sorted(set(range(s.size)) - set(s.gang))
    if missing and s.status.placement is not None:
        node = s.status.placement.nodes[missing[0]].node if missing[0] < s.nodes else ""
        name = s.pod_name(missing[0])
        return end_attempt(s, pod_lost(name, node, s.disruptions.get(name), s.now), settings)
    deadline = _max_runtime_at(s)
    if deadline is not None and s.now >= deadline and s.spec is not None:
        message = f"spec.maxRuntime ({s.spec.max_runtime} s) is over"
        return fail(s, LifecycleEvent.DEADLINE, reason="MaxRuntimeExceeded", message=message)
    idle_at = _idle_timeout_at(s)
    if idle_at is not None and s.now >= idle_at and s.spec is not None:
        message = f"no step was made and no GPU was busy for {s.spec.idle_timeout} s (spec.idleTimeout)"
        return fail(s, LifecycleEvent.DEADLINE, reason="IdleTimeout", message=message)
    status = None
    if s.progress is not None:
        status = s.status.model_copy(update={"progress": s.progress})
    times = [at for at in (deadline, idle_at) if at is not None]
    return ReconcileResult(status=status, delete_pods=s.strays, requeue_at=min(times, default=None))


def _max_runtime_at(s: Observation) -> float | None:
    """When `maxRuntime` is over, evictions not counted."""
    if s.spec is None or s.spec.max_runtime is None:
        return None
    before = s.status.usage.run_seconds if s.status.usage else 0
    return s.now + s.spec.max_runtime - before - status_transitions.ran_for(s.status, s.now)


def _idle_timeout_at(s: Observation) -> float | None:
    if s.spec is None or s.spec.idle_timeout is None or s.idle_since is None:
        return None
    return s.idle_since + s.spec.idle_timeout
