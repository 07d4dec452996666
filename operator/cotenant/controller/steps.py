"""Pure: what to do about one job now, from its document, its pods and the time. The loop asks; `apply` carries it out.

`next_step` looks at the phase and at what was observed, names the event of the core's transition table that this
amounts to, and returns the new status with the effects that go with it. Nothing is remembered between two calls, so a
new leader comes to the same step from the same documents.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cotenant import names
from cotenant.api.conversion import unix_seconds
from cotenant.api.jobstatus import ExitStatus, ProgressStatus, TrainingJobStatus
from cotenant.controller import statuses
from cotenant.controller.ends import End, Ending, WaitUntil, judge, lost
from cotenant.controller.news import last_words
from cotenant.controller.pods import PodFacts
from cotenant.controller.settings import Settings
from cotenant.controller.situation import Note, Situation, Step
from cotenant.core.lifecycle import HOLDING, TERMINAL, Event, Phase

GRACE_S = 30
"""The grace period of a job whose spec cannot be read any more."""
UNREACHABLE_S = 60.0
"""How long the pods of an evicted job may stay behind on a node that is not ready, beyond their grace period."""


def next_step(s: Situation, settings: Settings) -> Step:
    if s.deleting:  # its end is decided: nothing more is written, and nothing is made that would hold it up
        return Step(delete=_held(s))
    if s.phase in TERMINAL:
        return _finished(s)
    if s.phase is Phase.EVICTING:
        return _evicting(s)
    if s.phase in HOLDING:
        return _holding(s, settings)
    return _waiting(s)


def _waiting(s: Situation) -> Step:
    """Pending, suspended or invalid: it holds nothing, so nothing of it may run."""
    stray = tuple(pod for pod in s.pods if pod.held and not pod.deleting)
    status = s.status.model_copy(update={"observed_generation": s.generation})
    if s.spec is None:
        if s.phase is Phase.INVALID and s.status.message == s.problem:
            return Step(delete=stray)
        event = Event.REFUSED if s.phase is not Phase.INVALID else None
        changed = _refused(status, event, s.problem, s.now)
        return Step(status=changed, delete=stray, note=Note(reason="Invalid", message=s.problem, warning=True))
    if s.phase is Phase.INVALID:
        changed = statuses.moved(status, Event.ACCEPTED, reason="Accepted", message="", now=s.now, pending=None)
        return Step(status=changed, delete=stray)
    if s.spec.suspend and s.phase is Phase.PENDING:
        message = "spec.suspend is true: the job waits until it is set to false"
        changed = statuses.moved(
            status, Event.SUSPENDED, reason="Suspended", message=message, now=s.now, pending=None,
            gpus=statuses.asks(s.spec),
        )  # fmt: skip
        return Step(status=changed, delete=stray, note=Note(reason="Suspended", message=message))
    if not s.spec.suspend and s.phase is Phase.SUSPENDED:
        changed = statuses.moved(status, Event.RESUMED, reason="Resumed", message="the job waits again", now=s.now)
        return Step(status=changed, delete=stray, note=Note(reason="Resumed", message="spec.suspend was cleared"))
    return Step(delete=stray)


def _refused(status: TrainingJobStatus, event: Event | None, problem: str, now: float) -> TrainingJobStatus:
    if event is not None:
        return statuses.moved(status, event, reason="Invalid", message=problem, now=now, pending=None)
    changed = status.model_copy(update={"message": problem})
    return changed.model_copy(update={"conditions": statuses.conditions(changed, now)})


def _holding(s: Situation, settings: Settings) -> Step:
    """Starting or running. The first of these that applies decides; the order is from certain to merely late."""
    if s.status.placement is None:  # somebody edited the status: nothing is committed, so nothing may run
        return _evict(s, Event.EVICTED, kind="PlacementLost", message="status.placement was removed by hand")
    if s.spec is not None and s.spec.suspend:
        message = "spec.suspend was set: the job saves a checkpoint and gives its GPUs back"
        return _evict(s, Event.SUSPENDED, kind="Suspended", message=message)
    if s.refusal:
        return _end(
            s, Ending(kind=End.HOPELESS, exit=ExitStatus(code=-1, reason="Refused", message=s.refusal)), settings
        )
    if broken := _broken_limits(s):
        return _end(s, broken, settings)
    lost_at = _lost_node(s, settings)
    if lost_at is not None and s.now >= lost_at:
        nodes = ", ".join(sorted({pod.node for pod in s.gang.values() if pod.held and pod.node in s.dead_nodes}))
        return _evict(
            s, Event.EVICTED, kind="NodeLost", message=f"{nodes} has not answered for {settings.node_lost_s:.0f} s"
        )
    judged = judge(s.gang, s.size, s.now)
    if isinstance(judged, Ending):
        return _end(s, judged, settings)
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
        message = f"{_workers(s)} running in {_pods(s.size)}"
        fields = {} if s.status.started_at else {"started_at": statuses.moment(s.now)}
        changed = statuses.moved(s.status, Event.WORKERS_READY, reason="Running", message=message, now=s.now, **fields)
        return Step(status=changed, note=Note(reason="Running", message=message), look_again_at=_deadline(s))
    if s.now >= late_at:
        return _too_late(s, settings)
    # After a resize the pods of the attempt before must be gone; those on a dead node are not waited for.
    crowded = any(pod.held and pod.node not in s.dead_nodes for pod in s.pods if pod not in gang.values())
    return Step(create=len(gang) < s.size and not crowded, delete=_stray(s), look_again_at=late_at)


def _too_late(s: Situation, settings: Settings) -> Step:
    """Some pod is not up: the gang goes elsewhere, and keeps away from the nodes that failed it."""
    blamed: dict[str, str] = {}
    for node_rank, node in enumerate(s.status.placement.nodes if s.status.placement else ()):
        pod = s.gang.get(node_rank)
        if pod is None or not (pod.ready or pod.exit is not None):
            blamed[node.node] = (pod.waiting if pod else s.delay) or "the pod did not become ready"
    why = "; ".join(f"{node}: {reason}" for node, reason in sorted(blamed.items()))
    message = f"not all pods were up within {settings.start_timeout_s:.0f} s ({why})"
    faults = s.status.faults + 1
    if faults > settings.platform_retries:
        ending = Ending(kind=End.HOPELESS, exit=ExitStatus(code=-1, reason="StartTimeout", message=message, at=s.now))
        return _end(s, ending, settings)
    avoided = statuses.excluded(s.status, blamed, s.now + settings.exclude_s, s.now)
    return _evict(s, Event.START_TIMED_OUT, kind="StartTimeout", message=message, faults=faults, excluded_nodes=avoided)


def _running(s: Situation, settings: Settings) -> Step:
    missing = sorted(set(range(s.size)) - set(s.gang))
    if missing and s.status.placement is not None:
        node = s.status.placement.nodes[missing[0]].node
        return _end(s, lost(f"{s.name}-{s.status.attempts}-{missing[0]}", node, s.now), settings)
    deadline = _deadline(s)
    if deadline is not None and s.now >= deadline and s.spec is not None:
        message = f"spec.maxRuntime ({s.spec.max_runtime} s) is over"
        return _give_up(s, Event.DEADLINE, reason="MaxRuntimeExceeded", message=message)
    idle_at = _idle_deadline(s)
    if idle_at is not None and s.now >= idle_at and s.spec is not None:
        message = f"no step was made and no GPU was busy for {s.spec.idle_timeout} s (spec.idleTimeout)"
        return _give_up(s, Event.DEADLINE, reason="IdleTimeout", message=message)
    status = None
    if s.progress is not None:
        status = s.status.model_copy(update={"progress": s.progress})
    times = [at for at in (deadline, idle_at) if at is not None]
    return Step(status=status, delete=_stray(s), look_again_at=min(times, default=None))


def _end(s: Situation, ending: Ending, settings: Settings) -> Step:
    """The attempt is over. Completed, to be tried again, or given up."""
    if ending.kind is End.COMPLETED:
        return _complete(s, ending)
    message = statuses.exit_message(ending.exit)
    reason = ending.exit.reason
    failures = s.status.failures + (ending.kind in {End.FAILED, End.HOPELESS})
    faults = s.status.faults + (ending.kind is End.FAULT)
    fields = {"last_exit": ending.exit, "failures": failures, "faults": faults}
    retries = s.spec.retries if s.spec else 0
    out_of_retries = ending.kind is End.HOPELESS or (ending.kind is End.FAILED and failures > retries)
    if out_of_retries or faults > settings.platform_retries:
        why = message if retries == 0 or ending.kind is not End.FAILED else f"{message}; all {retries} retries are used"
        return _give_up(s, Event.GAVE_UP, reason=reason, message=why, **fields)
    event = Event.EVICTED if ending.kind is End.LEFT else Event.CRASHED
    return _evict(s, event, kind=reason, message=f"{message}; the job will be tried again", **fields)


def _complete(s: Situation, ending: Ending) -> Step:
    told = ending.pod.exit.termination if ending.pod and ending.pod.exit else None
    results = dict(told.results) if told and told.results else None
    message = f"{_workers(s)} finished"
    changed = statuses.finished(
        s.status,
        Event.COMPLETED,
        reason="Completed",
        message=message,
        milli=s.milli,
        now=s.now,
        results=results,
        last_exit=ending.exit,
        progress=_last_progress(s),
    )
    return Step(status=changed, delete=_held(s), note=Note(reason="Completed", message=message))


def _last_progress(s: Situation) -> ProgressStatus | None:
    head = s.gang.get(0)
    told = head.exit.termination if head and head.exit else None
    return last_words(s.progress or s.status.progress, told, s.now)


def _give_up(s: Situation, event: Event, *, reason: str, message: str, **fields: Any) -> Step:
    changed = statuses.finished(
        s.status, event, reason=reason, message=message, milli=s.milli, now=s.now, progress=_last_progress(s), **fields
    )
    return Step(status=changed, delete=_held(s), note=Note(reason=reason, message=message, warning=True))


def _evict(s: Situation, event: Event, *, kind: str, message: str, **fields: Any) -> Step:
    """Asked to leave. When nothing of it runs any more, it has left in the same step."""
    changed = statuses.evicting(s.status, event, kind=kind, message=message, now=s.now, **fields)
    note = Note(reason=kind, message=message, warning=event in {Event.CRASHED, Event.START_TIMED_OUT})
    held = _held(s)
    if not any(pod.held for pod in s.pods):
        changed = _release(s, changed)
    return Step(status=changed, delete=held, note=note)


def _evicting(s: Situation) -> Step:
    """Waits for the last pod to be gone; pods on a dead node are not waited for, only their GPUs stay taken."""
    held = [pod for pod in s.pods if pod.held]
    asked_at = (unix_seconds(s.status.eviction.at) if s.status.eviction else None) or s.now
    grace = s.spec.grace_period if s.spec else GRACE_S
    unreachable_at = asked_at + grace + UNREACHABLE_S
    stuck = bool(held) and all(pod.node in s.dead_nodes for pod in held)
    if held and not (stuck and s.now >= unreachable_at):
        return Step(delete=_held(s), look_again_at=unreachable_at if stuck else None)
    judged = judge(s.gang, s.size, s.now) if s.size else None
    if isinstance(judged, Ending) and judged.kind is End.COMPLETED and len(s.gang) == s.size:
        return _complete(s, judged)
    return Step(status=_release(s, s.status), note=Note(reason="Requeued", message="the job waits again"))


def _release(s: Situation, status: TrainingJobStatus) -> TrainingJobStatus:
    """Free, and suspended in the same breath when that is what was asked."""
    freed = statuses.released(status, milli=s.milli, now=s.now)
    if s.spec is not None and s.spec.suspend:
        message = "spec.suspend is true: the job waits until it is set to false"
        freed = statuses.moved(freed, Event.SUSPENDED, reason="Suspended", message=message, now=s.now, pending=None)
    return freed


def _finished(s: Situation) -> Step:
    held = _held(s)
    ttl = s.spec.ttl_after_finished if s.spec else None
    ended = unix_seconds(s.status.finished_at)
    if ttl is None or ended is None:
        return Step(delete=held)
    if s.now >= ended + ttl:
        return Step(delete=held, delete_job=True)
    return Step(delete=held, look_again_at=ended + ttl)


def _deadline(s: Situation) -> float | None:
    """When `maxRuntime` is over, evictions not counted."""
    if s.spec is None or s.spec.max_runtime is None:
        return None
    before = s.status.usage.run_seconds if s.status.usage else 0
    return s.now + s.spec.max_runtime - before - statuses.ran_for(s.status, s.now)


def _idle_deadline(s: Situation) -> float | None:
    if s.spec is None or s.spec.idle_timeout is None or s.idle_since is None:
        return None
    return s.idle_since + s.spec.idle_timeout


def _held(s: Situation) -> tuple[PodFacts, ...]:
    """Pods that may still run and were not asked to end yet."""
    return tuple(pod for pod in s.pods if pod.held and not pod.deleting)


def _stray(s: Situation) -> tuple[PodFacts, ...]:
    """Pods of earlier attempts, ended ones too: their logs were there to read until now."""
    number = s.status.attempts
    return tuple(pod for pod in s.pods if pod.worker and pod.worker.attempt != number and not pod.deleting)


def _workers(s: Situation) -> str:
    workers = s.status.placement.workers if s.status.placement else 0
    return f"{workers} worker" + ("" if workers == 1 else "s")


def _pods(count: int) -> str:
    return f"{count} pod" + ("" if count == 1 else "s")
