"""Pure: how a job leaves its GPUs: finished, given up, or asked to go and to wait again."""

from __future__ import annotations

from typing import Any

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import ProgressStatus, TrainingJobStatus
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.failure_classification import End, Ending, judge
from cotenant.controller.lifecycle.observation import Note, Situation, Step
from cotenant.controller.lifecycle.progress import last_words
from cotenant.controller.lifecycle.words import exit_message
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted
from cotenant.core.model.lifecycle import LifecycleEvent

GRACE_S = 30
"""The grace period of a job whose spec cannot be read any more."""
UNREACHABLE_S = 60.0
"""How long the pods of an evicted job may stay behind on a node that is not ready, beyond their grace period."""


def end(s: Situation, ending: Ending, settings: Settings) -> Step:
    """The attempt is over. Completed, to be tried again, or given up."""
    if ending.kind is End.COMPLETED:
        return _complete(s, ending)
    message = ending.exit.message if ending.plain else exit_message(ending.exit)
    reason = ending.exit.reason
    failures = s.status.failures + (ending.kind in {End.FAILED, End.HOPELESS})
    fields: dict[str, Any] = {"last_exit": ending.exit, "failures": failures}
    fields |= _fault(s) if ending.kind is End.FAULT else {}
    faults = fields.get("faults", s.status.faults)
    retries = s.spec.retries if s.spec else 0
    out_of_retries = ending.kind is End.HOPELESS or (ending.kind is End.FAILED and failures > retries)
    if out_of_retries or faults > settings.platform_retries:
        why = message if retries == 0 or ending.kind is not End.FAILED else f"{message}; all {retries} retries are used"
        return give_up(s, LifecycleEvent.GAVE_UP, reason=reason, message=why, **fields)
    event = LifecycleEvent.EVICTED if ending.kind is End.LEFT else LifecycleEvent.CRASHED
    return evict(s, event, kind=reason, message=f"{message}; the job will be tried again", **fields)


def _fault(s: Situation) -> dict[str, Any]:
    """One more of the platform's in a row. A job that has saved something new since the last one is not going round
    in circles: however long it trains, and however often it is hit, it is not given up."""
    told = [pod.exit.termination for pod in s.gang.values() if pod.exit and pod.exit.termination]
    steps = [each.last_checkpoint_step for each in told]
    polled = s.progress or s.status.progress
    steps += [polled.last_checkpoint.step] if polled and polled.last_checkpoint else []
    before = s.status.saved_at_fault
    newest = max((step for step in (*steps, before) if step is not None), default=None)
    gets_on = newest is not None and (before is None or newest > before)
    return {"faults": 1 if gets_on else s.status.faults + 1, "saved_at_fault": newest}


def _complete(s: Situation, ending: Ending) -> Step:
    told = ending.pod.exit.termination if ending.pod and ending.pod.exit else None
    results = dict(told.results) if told and told.results else None
    message = f"{counted(s.workers, 'worker')} finished"
    if told and told.step < told.of:  # right, if it stopped early on purpose
        message += f", at step {told.step} of {told.of}"
    changed = status_transitions.finished(
        s.status,
        LifecycleEvent.COMPLETED,
        reason="Completed",
        message=message,
        milli=s.milli,
        over_at=s.over_at,
        now=s.now,
        results=results,
        last_exit=ending.exit,
        progress=_last_progress(s),
    )
    return Step(status=changed, delete=s.held, note=Note(reason="Completed", message=message))


def give_up(s: Situation, event: LifecycleEvent, *, reason: str, message: str, **fields: Any) -> Step:
    changed = status_transitions.finished(
        s.status,
        event,
        reason=reason,
        message=message,
        milli=s.milli,
        over_at=s.over_at,
        now=s.now,
        progress=_last_progress(s),
        **fields,
    )
    return Step(status=changed, delete=s.held, note=Note(reason=reason, message=message, warning=True))


def evict(
    s: Situation, event: LifecycleEvent, *, kind: str, message: str, warning: bool = False, **fields: Any
) -> Step:
    """Asked to leave. When nothing of it runs any more, it has left in the same step."""
    changed = status_transitions.evicting(s.status, event, kind=kind, message=message, now=s.now, **fields)
    note = Note(
        reason=kind,
        message=message,
        warning=warning or event in {LifecycleEvent.CRASHED, LifecycleEvent.START_TIMED_OUT},
    )
    held = s.held
    if not any(pod.held for pod in s.pods):
        changed = _release(s, changed)
    return Step(status=changed, delete=held, note=note)


def evicting(s: Situation) -> Step:
    """Waits for the last pod to be gone; pods on a dead node are not waited for, only their GPUs stay taken."""
    held = [pod for pod in s.pods if pod.held]
    asked_at = (unix_seconds(s.status.eviction.at) if s.status.eviction else None) or s.now
    grace = s.spec.grace_period if s.spec else GRACE_S
    unreachable_at = asked_at + grace + UNREACHABLE_S
    stuck = bool(held) and all(pod.node in s.dead_nodes for pod in held)
    if held and not (stuck and s.now >= unreachable_at):
        return Step(delete=s.held, look_again_at=unreachable_at if stuck else None)
    judged = judge(s.gang, s.size, s.now) if s.size else None
    if isinstance(judged, Ending) and judged.kind is End.COMPLETED and len(s.gang) == s.size:
        return _complete(s, judged)
    return Step(status=_release(s, s.status), note=Note(reason="Requeued", message="the job waits again"))


def _release(s: Situation, status: TrainingJobStatus) -> TrainingJobStatus:
    """Free, and suspended in the same breath when that is what was asked."""
    freed = status_transitions.released(status, milli=s.milli, over_at=s.over_at, now=s.now)
    if s.spec is not None and s.spec.suspend:
        message = "spec.suspend is true: the job waits until it is set to false"
        freed = status_transitions.moved(
            freed, LifecycleEvent.SUSPENDED, reason="Suspended", message=message, now=s.now, pending=None
        )
    return freed


def _last_progress(s: Situation) -> ProgressStatus | None:
    head = s.gang.get(0)
    told = head.exit.termination if head and head.exit else None
    return last_words(s.progress or s.status.progress, told, s.now)
