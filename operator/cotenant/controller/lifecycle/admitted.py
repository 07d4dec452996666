"""Pure: a job that holds its GPUs, starting or running. The first thing that applies decides what happens to it."""

from __future__ import annotations

from dataclasses import replace

from cotenant import names
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import ExitStatus
from cotenant.controller.informers.pod_record import PodFacts
from cotenant.controller.lifecycle import mounts, status_transitions
from cotenant.controller.lifecycle.failure_classification import End, Ending, WaitUntil, judge, lost
from cotenant.controller.lifecycle.observation import Note, Situation, Step
from cotenant.controller.lifecycle.termination import end, evict, give_up
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted
from cotenant.core.model.lifecycle import LifecycleEvent, Phase

SAME = {"ImagePullBackOff": "ErrImagePull", "CreateContainerError": "CreateContainerConfigError"}
"""Reasons of the kubelet that take turns while nothing changes: told once."""
LONGEST = 500
"""Characters of somebody else's words in a message."""


def holding(s: Situation, settings: Settings) -> Step:
    """Starting or running. The first of these that applies decides; the order is from certain to merely late."""
    if s.status.placement is None:  # somebody edited the status: nothing is committed, so nothing may run
        return evict(
            s,
            LifecycleEvent.EVICTED,
            kind="PlacementLost",
            message="status.placement was removed by hand",
            warning=True,
        )
    if s.impossible:
        message = f"status.placement cannot be carried out: {s.impossible}; the job is placed anew"
        return evict(s, LifecycleEvent.EVICTED, kind="PlacementImpossible", message=message, warning=True)
    if s.spec is not None and s.spec.suspend:
        message = "spec.suspend was set: the job saves a checkpoint and gives its GPUs back"
        return evict(s, LifecycleEvent.SUSPENDED, kind="Suspended", message=message)
    if s.refusal:
        return end(
            s, Ending(kind=End.HOPELESS, exit=ExitStatus(code=-1, reason="Refused", message=s.refusal)), settings
        )
    if broken := _broken_limits(s):
        return end(s, broken, settings)
    lost_at = _lost_node(s, settings)
    if lost_at is not None and s.now >= lost_at:
        nodes = ", ".join(sorted({pod.node for pod in s.gang.values() if pod.held and pod.node in s.dead_nodes}))
        return evict(
            s,
            LifecycleEvent.EVICTED,
            kind="NodeLost",
            message=f"{nodes} has not answered for {settings.node_lost_s:.0f} s",
        )
    judged = judge(s.gang, s.size, s.now)
    if isinstance(judged, Ending):
        return end(s, _with_what_held_it_up(s, judged), settings)
    step = _running(s, settings) if s.phase is Phase.RUNNING else _starting(s, settings)
    if lost_at is not None:
        step = replace(step, look_again_at=min(lost_at, step.look_again_at or lost_at))
    if isinstance(judged, WaitUntil):
        return replace(step, look_again_at=min(judged.at, step.look_again_at or judged.at), create=False)
    return step


def _broken_limits(s: Situation) -> Ending | None:
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
            return Ending(kind=End.FAILED, exit=told, pod=pod)
    if s.mismatch:
        return Ending(
            kind=End.FAULT, exit=ExitStatus(code=-1, reason="IsolationMismatch", message=s.mismatch, at=s.now)
        )
    return None


def _lost_node(s: Situation, settings: Settings) -> float | None:
    """When the gang stops waiting for a node that does not answer; nothing when all of them do."""
    since = [s.dead_nodes[pod.node] for pod in s.gang.values() if pod.held and pod.node in s.dead_nodes]
    return min(since) + settings.node_lost_s if since else None


def _starting(s: Situation, settings: Settings) -> Step:
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
        return Step(status=changed, note=Note(reason="Running", message=message), look_again_at=_deadline(s))
    if s.now >= late_at:
        return _too_late(s, settings)
    # After a resize the pods of the attempt before must be gone; those on a dead node are not waited for.
    crowded = any(pod.held and pod.node not in s.dead_nodes for pod in s.pods if pod not in gang.values())
    times = [at for pod in gang.values() if (at := mounts.late_at(pod)) is not None and at > s.now]
    step = Step(create=len(gang) < s.size and not crowded, delete=s.strays, look_again_at=min([late_at, *times]))
    reason, message = _held_up(s)
    if not reason or reason == s.status.reason:
        return step
    changed = status_transitions.explained(s.status, reason=reason, message=message, now=s.now)
    return replace(step, status=changed, note=Note(reason=reason, message=message, warning=True))


def _held_up(s: Situation) -> tuple[str, str]:
    """Why the gang is not up, in one word and in a sentence: the tenant need not look for it at the pods."""
    for pod in sorted(s.gang.values(), key=lambda pod: pod.name):
        if pod.waiting and not pod.ready and pod.exit is None:
            reason = pod.waiting.partition(":")[0]
            server = "server " if pod.worker and pod.worker.server else ""
            return SAME.get(reason, reason), f"{server}pod {pod.name} does not start: {pod.waiting[:LONGEST]}"
    for pod in sorted(s.gang.values(), key=lambda pod: pod.name):
        at = mounts.late_at(pod)
        if at is not None and s.now >= at:
            return mounts.REASON, mounts.late(pod, s.spec, pod.namespace)
    return ("NotCreated", s.delay[:LONGEST]) if s.delay else ("", "")


def _with_what_held_it_up(s: Situation, ending: Ending) -> Ending:
    """Pods that waited for another in vain know that it did not come; the kube-scheduler or a kubelet knows why."""
    why = _held_up(s)[1] if ending.exit.reason == "RendezvousTimeout" else ""
    if not why:
        return ending
    return replace(ending, exit=ending.exit.model_copy(update={"message": f"{ending.exit.message}; {why}"}))


def _too_late(s: Situation, settings: Settings) -> Step:
    """Some pod is not up: the gang goes elsewhere, and keeps away from the nodes that failed it.

    A server names itself and no node: the kube-scheduler found it none, or may find it another the next time.
    """
    late: dict[int, str] = {}
    for node_rank in range(s.size):
        pod = s.gang.get(node_rank)
        if pod is None or not (pod.ready or pod.exit is not None):
            late[node_rank] = _why_late(s, pod) or "the pod did not become ready"
    nodes = [node.node for node in s.status.placement.nodes] if s.status.placement else []
    blamed = {nodes[node_rank]: reason for node_rank, reason in late.items() if node_rank < len(nodes)}
    servers = [f"server pod {s.pod_name(rank)}: {reason}" for rank, reason in late.items() if rank >= len(nodes)]
    why = "; ".join([*(f"{node}: {reason}" for node, reason in sorted(blamed.items())), *servers])
    message = f"not all pods were up within {settings.start_timeout_s:.0f} s ({why})"
    faults = s.status.faults + 1
    if faults > settings.platform_retries:
        ending = Ending(kind=End.HOPELESS, exit=ExitStatus(code=-1, reason="StartTimeout", message=message, at=s.now))
        return end(s, ending, settings)
    avoided = status_transitions.excluded(s.status, blamed, s.now + settings.exclude_s, s.now)
    return evict(
        s, LifecycleEvent.START_TIMED_OUT, kind="StartTimeout", message=message, faults=faults, excluded_nodes=avoided
    )


def _why_late(s: Situation, pod: PodFacts | None) -> str:
    if pod is None:
        return s.delay
    return pod.waiting or (mounts.late(pod, s.spec, pod.namespace) if mounts.late_at(pod) is not None else "")


def _running(s: Situation, settings: Settings) -> Step:
    missing = sorted(set(range(s.size)) - set(s.gang))
    if missing and s.status.placement is not None:
        node = s.status.placement.nodes[missing[0]].node if missing[0] < s.nodes else ""
        name = s.pod_name(missing[0])
        return end(s, lost(name, node, s.departed.get(name), s.now), settings)
    deadline = _deadline(s)
    if deadline is not None and s.now >= deadline and s.spec is not None:
        message = f"spec.maxRuntime ({s.spec.max_runtime} s) is over"
        return give_up(s, LifecycleEvent.DEADLINE, reason="MaxRuntimeExceeded", message=message)
    idle_at = _idle_deadline(s)
    if idle_at is not None and s.now >= idle_at and s.spec is not None:
        message = f"no step was made and no GPU was busy for {s.spec.idle_timeout} s (spec.idleTimeout)"
        return give_up(s, LifecycleEvent.DEADLINE, reason="IdleTimeout", message=message)
    status = None
    if s.progress is not None:
        status = s.status.model_copy(update={"progress": s.progress})
    times = [at for at in (deadline, idle_at) if at is not None]
    return Step(status=status, delete=s.strays, look_again_at=min(times, default=None))


def _deadline(s: Situation) -> float | None:
    """When `maxRuntime` is over, evictions not counted."""
    if s.spec is None or s.spec.max_runtime is None:
        return None
    before = s.status.usage.run_seconds if s.status.usage else 0
    return s.now + s.spec.max_runtime - before - status_transitions.ran_for(s.status, s.now)


def _idle_deadline(s: Situation) -> float | None:
    if s.spec is None or s.spec.idle_timeout is None or s.idle_since is None:
        return None
    return s.idle_since + s.spec.idle_timeout
