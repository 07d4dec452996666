"""Reconcile of one TrainingJob, from its document, its pods and the time. Pure.

`reconcile` looks at the phase and at the observation. It returns the new status and the effects that go with it. Phases
follow the core's transition table. Nothing is remembered between two calls, so a new leader comes to the same result
from the same documents.

Whatever can end an attempt is a module in `policies`, with two functions. `ending` returns how the attempt ends now, or
None. `deadline` returns when the clock alone may end it. Short ones are functions in this file. JobSet organizes its
policies in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cotenant import names
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import ExitStatus, PendingStatus, TrainingJobStatus
from cotenant.api.scalars.fields import moment
from cotenant.api.scalars.status_text import plain_sentence
from cotenant.controller.informers.job_record import RESTORED, STATUS_UNREADABLE
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome, Undecided
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.pod_deletion import (
    effective_grace_s,
    named,
    pods_to_end,
)
from cotenant.controller.lifecycle.policies import (
    blocked_start,
    data_staging,
    deleted_objects,
    evaluator,
    idle_timeout,
    isolation_levels,
    low_use,
    max_runtime,
    node_lost,
    pod_exits,
    retries,
    share_suggestion,
    start_obstacles,
    start_timeout,
    stop_request,
)
from cotenant.controller.lifecycle.termination import (
    Ending,
    Eviction,
    is_unconfirmed,
    reconcile_evicting,
    suspend_reason_is_over,
    suspended_message,
    terminate,
    with_forced_deletions,
)
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted, format_duration
from cotenant.core.model.lifecycle import HOLDING, TERMINAL, LifecycleEvent, Phase

UNKNOWN_PROFILE: Final = "UnknownProfile"
PROBLEM_QUOTE_MAX: Final = 600
"""Most characters of the problem that are quoted in an Event about an unreadable status."""
UNREADABLE_AGAIN_S: Final = 600.0
"""Pause before the Event about an unreadable status is recorded again, in case that the API server has forgotten it."""


def reconcile(o: Observation, settings: Settings) -> ReconcileResult:
    """The next step of the job by its phase, including pods that were asked to end.

    A job with an unreadable status is left alone, and an Event says so: a newer release may have written the status.
    """
    if o.record.status_problem is not None:
        return _left_alone(o, o.record.status_problem)
    return with_forced_deletions(o, _reconcile_phase(o, settings), settings)


def reconcile_orphans(pods: tuple[PodRecord, ...], now: float, settings: Settings) -> ReconcileResult:
    """The next step of pods whose job is gone."""
    to_end = pods_to_end(pods, now, settings)
    asked = tuple(pod for pod in pods if not pod.deleting)
    return ReconcileResult(delete_pods=asked, forced_deletions=to_end.forced, requeue_at=to_end.next_at)


def _reconcile_phase(o: Observation, settings: Settings) -> ReconcileResult:
    # 1. A job that is being deleted: nothing is made that would hold its end up.
    if o.record.deleting:
        return _reconcile_deleting(o, settings)
    # 2. Succeeded or failed: nothing of it may run, and in the end the document goes.
    if o.phase in TERMINAL:
        return _reconcile_finished(o)
    # 3. On another cluster: `composites.remote_clusters` writes its status.
    if o.record.is_away:
        return ReconcileResult(delete_pods=o.stoppable)
    # 4. Asked to leave: it holds its GPUs until its last pod is gone.
    if o.phase is Phase.EVICTING:
        return reconcile_evicting(o, settings)
    # 5. Starting or running.
    if o.phase in HOLDING:
        return _reconcile_admitted(o, settings)
    # 6. Restored from a backup: what became of it is not known.
    if o.record.awaits_word:
        return _reconcile_restored(o)
    # 7. Pending, suspended or invalid: it holds nothing, and waits for the scheduler or for an edit.
    return _reconcile_waiting(o)


def _left_alone(o: Observation, problem: str) -> ReconcileResult:
    message = (
        "the operator cannot read the status of this job, which a newer release may have written. It leaves the job"
        " alone: pods that run go on, and nothing is started, ended or written. Install that release again, or mend the"
        f" status: {problem[:PROBLEM_QUOTE_MAX]}"
    )
    event = EventToRecord(reason=STATUS_UNREADABLE, message=message, warning=True, once=True)
    return ReconcileResult(event=event, requeue_at=o.now + UNREADABLE_AGAIN_S)


def _reconcile_deleting(o: Observation, settings: Settings) -> ReconcileResult:
    """End the pods, then give the GPUs back: a finalizer of somebody else may keep the document for long."""
    if o.phase is Phase.EVICTING:
        return reconcile_evicting(o, settings)
    if o.holders or o.phase not in HOLDING or o.status.placement is None:
        return ReconcileResult(delete_pods=o.stoppable)
    message = "the job is being deleted; its document waits for the finalizers of others"
    ended = terminate(o, Eviction(event=LifecycleEvent.EVICTED, kind="Deleted", message=message))
    return replace(ended, event=None)


def _reconcile_finished(o: Observation) -> ReconcileResult:
    """`spec.ttlAfterFinished`: end the remaining pods, and delete the job when its time is over."""
    ttl_s = o.spec.ttl_after_finished if o.spec else None
    ended_at = unix_seconds(o.status.finished_at)
    if ttl_s is not None and ended_at is not None and o.now >= ended_at + ttl_s:
        return ReconcileResult(delete_pods=o.stoppable, delete_job=True)
    result = evaluator.after_the_job(o)
    if ttl_s is None or ended_at is None:
        return result
    times = [at for at in (result.requeue_at, ended_at + ttl_s) if at is not None]
    return replace(result, requeue_at=min(times))


def _reconcile_waiting(o: Observation) -> ReconcileResult:
    """Update the phase of a job that holds nothing from its spec, and end pods of it that still run."""
    status, now = o.status.model_copy(update={"observed_generation": o.record.generation}), o.now
    event: EventToRecord | None = None
    clear = False
    if (stopped := stop_request.requested(o)) is not None:
        return stop_request.without_placement(o, stopped)
    problem = plain_sentence(o.problem or "")
    if o.spec is None and o.record.profile_missing:
        return ReconcileResult(status=_waits_for_its_profile(o, status, problem), delete_pods=o.stoppable)
    if o.spec is None and o.phase is Phase.INVALID and o.status.message == problem:
        return ReconcileResult(delete_pods=o.stoppable)
    if o.spec is None:
        event = EventToRecord(reason="Invalid", message=problem, warning=True)
        if o.phase is Phase.INVALID:
            changed = status_transitions.explained(status, reason="Invalid", message=problem, now=now)
        else:
            changed = status_transitions.moved(
                status, LifecycleEvent.REFUSED, reason="Invalid", message=problem, now=now, pending=None
            )
    elif o.phase is Phase.INVALID:
        changed = status_transitions.moved(
            status, LifecycleEvent.ACCEPTED, reason="Accepted", message="", now=now, pending=None
        )
    elif o.spec.suspend and (suspended := _suspended_waiting(o, status)) is not None:
        changed, event = suspended
    elif not o.spec.suspend and o.phase is Phase.SUSPENDED:
        event = EventToRecord(reason="Resumed", message="spec.suspend was cleared")
        changed = status_transitions.moved(
            status, LifecycleEvent.RESUMED, reason="Resumed", message="the job waits again", now=now
        )
        clear = suspend_reason_is_over(o)
    elif (suggested := share_suggestion.of_another(o)) is not None:
        return suggested
    elif o.record.profile_unwritten:
        changed = status
    else:
        return ReconcileResult(delete_pods=o.stoppable)
    return ReconcileResult(status=changed, delete_pods=o.stoppable, event=event, clear_suspend_reason=clear)


def _suspended_waiting(
    o: Observation, status: TrainingJobStatus
) -> tuple[TrainingJobStatus, EventToRecord | None] | None:
    """The status and the Event of a job that is suspended before it starts, or for another reason; None if the status
    says so already.
    """
    said = suspended_message(o, status)
    if o.phase is Phase.PENDING:
        changed = status_transitions.moved(
            status, LifecycleEvent.SUSPENDED, reason="Suspended", message=said, now=o.now, pending=None,
            **o.record.size_requested,
        )  # fmt: skip
        return changed, EventToRecord(reason="Suspended", message=said)
    if o.phase is Phase.SUSPENDED and said != status.message:
        return status_transitions.explained(status, reason="Suspended", message=said, now=o.now), None
    return None


def _reconcile_restored(o: Observation) -> ReconcileResult:
    """Suspend a job that was restored from a backup without a status, until somebody takes its label away."""
    if o.phase is Phase.SUSPENDED:
        return ReconcileResult(delete_pods=o.stoppable)
    message = (
        "the job came back from a backup without its status, so that it may have ended before. To start it:"
        f" kubectl label trainingjob -n {o.record.namespace} {o.record.name} {names.LABEL_VELERO_RESTORE}-"
    )
    changed = status_transitions.moved(
        o.record.observed_status, LifecycleEvent.SUSPENDED, reason=RESTORED, message=message, now=o.now, pending=None
    )
    event = EventToRecord(reason=RESTORED, message=message, warning=True)
    return ReconcileResult(status=changed, delete_pods=o.stoppable, event=event)


def _waits_for_its_profile(o: Observation, status: TrainingJobStatus, problem: str) -> TrainingJobStatus | None:
    """The status of a job whose profile does not exist; None if the status says so already, or the job is suspended."""
    if o.phase is Phase.SUSPENDED or (o.phase is Phase.PENDING and o.status.message == problem):
        return None
    why = PendingStatus(reason=UNKNOWN_PROFILE, message=problem, since=moment(o.now))
    if o.phase is Phase.PENDING:
        changed = status_transitions.explained(status, reason=UNKNOWN_PROFILE, message=problem, now=o.now)
        return changed.model_copy(update={"phase": Phase.PENDING, "pending": why})
    return status_transitions.moved(
        status, LifecycleEvent.ACCEPTED, reason=UNKNOWN_PROFILE, message=problem, now=o.now, pending=why
    )


def _reconcile_admitted(o: Observation, settings: Settings) -> ReconcileResult:
    # 1. What ends the attempt: the first that applies, from certain to merely late.
    for ending_of in ENDINGS:
        if (ending := ending_of(o, settings)) is not None:
            return terminate(o, ending)
    # 2. Otherwise it starts, or runs on.
    result = isolation_levels.with_levels(o, _running(o) if o.phase is Phase.RUNNING else _starting(o))
    result = data_staging.with_message(o, result)
    result = share_suggestion.with_suggestion(o, low_use.with_condition(o, result))
    result = evaluator.with_evaluator(o, deleted_objects.with_conditions(o, result))
    # 3. What ends it by the clock is looked for again at its time.
    times = [result.requeue_at, *(deadline_of(o, settings) for deadline_of in DEADLINES)]
    return replace(result, requeue_at=min((at for at in times if at is not None), default=None))


KUBECTL_LOGS = 5
"""Pods that `kubectl logs -f` follows by default."""


def _starting(o: Observation) -> ReconcileResult:
    """Mark the job as running once every pod is ready. Until then, make missing pods and report what blocks them."""
    if o.all_up:
        message = f"{counted(o.workers, 'worker')} running in {counted(o.nodes, 'pod')}"
        if o.servers:
            message += f", {counted(o.servers, 'parameter server')} beside them"
        fields = {} if o.status.started_at else {"started_at": moment(o.now)}
        changed = status_transitions.moved(
            status_transitions.unblocked(o.status, o.now),
            LifecycleEvent.WORKERS_READY,
            reason="Running",
            message=message,
            now=o.now,
            **fields,
        )
        logs = f"kubectl logs -n {o.record.namespace} -l {names.LABEL_JOB}={o.record.name} --prefix -f"
        if o.size > KUBECTL_LOGS:
            logs += f" --max-log-requests={o.size}"
        return ReconcileResult(
            status=changed, event=EventToRecord(reason="Running", message=f"{message}; its logs: {logs}")
        )
    gang = o.gang
    # After a resize the pods of the attempt before must be gone. Those that their node does not end are not waited for,
    # unless they use the same GPUs.
    earlier = [pod for pod in o.holders if pod not in gang.values()]
    crowded = any(pod.node not in o.unreachable_nodes and not is_unconfirmed(o, pod) for pod in earlier)
    create = len(gang) < o.size and not (crowded or o.in_the_way or o.departed or isinstance(o.end, Undecided))
    result = ReconcileResult(create_pods=create, delete_pods=o.strays)
    obstacle = start_obstacles.first(o)
    if obstacle is None or obstacle.reason == o.status.reason:
        return result
    changed = status_transitions.explained(o.status, reason=obstacle.reason, message=obstacle.message, now=o.now)
    event = EventToRecord(reason=obstacle.reason, message=obstacle.message, warning=True)
    return replace(result, status=changed, event=event)


def _running(o: Observation) -> ReconcileResult:
    """Write the job's progress, and end pods of earlier attempts."""
    status = None if o.progress is None else status_transitions.with_progress(o.status, o.progress)
    return ReconcileResult(status=status, delete_pods=o.strays)


def _placement_revoked(o: Observation, settings: Settings) -> Ending | None:
    """End the attempt if somebody edited the placement so that it is missing or cannot be carried out."""
    if o.status.placement is None:
        message = "status.placement was removed by hand"
        return Eviction(event=LifecycleEvent.EVICTED, kind="PlacementLost", message=message, warning=True)
    if o.of_placement.error is None:
        return None
    message = f"status.placement cannot be carried out: {o.of_placement.error}; the job is placed anew"
    return Eviction(event=LifecycleEvent.EVICTED, kind="PlacementImpossible", message=message, warning=True)


def _place_taken(o: Observation, settings: Settings) -> Ending | None:
    """End an attempt that waits for GPUs of a pod of the attempt before, if the node of that pod does not end it."""
    stuck = tuple(pod for pod in o.in_the_way if is_unconfirmed(o, pod)) if o.phase is Phase.STARTING else ()
    if not stuck:
        return None
    message = f"{named(stuck)} of the attempt before does not end, and uses GPUs of this one; the job is placed anew"
    return Eviction(event=LifecycleEvent.EVICTED, kind=status_transitions.OVERDUE, message=message, warning=True)


def _suspended(o: Observation, settings: Settings) -> Ending | None:
    if o.spec is None or not o.spec.suspend:
        return None
    grace_s = effective_grace_s(o.spec.grace_period, settings)
    message = f"spec.suspend was set: the ranks get SIGTERM and {format_duration(grace_s)} to save and to end"
    return Eviction(event=LifecycleEvent.SUSPENDED, kind="Suspended", message=message)


def _creation_rejected(o: Observation, settings: Settings) -> Ending | None:
    """Fail the job if the API server refused one of its objects for good."""
    if o.of_placement.creation_rejection is None:
        return None
    refused = ExitStatus(code=-1, reason="Refused", message=o.of_placement.creation_rejection)
    return retries.decide(o, AttemptEnd(outcome=AttemptOutcome.NON_RETRIABLE, exit=refused), settings)


def _gpu_limit_broken(o: Observation, settings: Settings) -> Ending | None:
    """End the attempt if a pod uses more GPU memory than its share."""
    for pod in o.gang.values():
        violation = o.of_pods.violations.get(pod.uid)
        if violation is not None and pod.held:
            message = (
                f"pod {pod.name} used {violation.memory_mib} MiB of {violation.uuid}, its share is"
                f" {violation.quota_mib} MiB; ask for more in spec.gpu, or use less"
            )
            over = ExitStatus(
                code=names.EXIT_QUOTA, reason="GPUMemoryQuotaExceeded", message=message, node=pod.node, at=o.now
            )
            return retries.decide(o, AttemptEnd(outcome=AttemptOutcome.FAILED, exit=over, pod=pod), settings)
    return None


ENDINGS: Final = (
    _placement_revoked,
    _place_taken,
    _suspended,
    _creation_rejected,
    blocked_start.ending,
    _gpu_limit_broken,
    isolation_levels.ending,
    node_lost.sick_gpu_ending,
    node_lost.ending,
    pod_exits.ending,
    stop_request.ending,
    start_timeout.ending,
    max_runtime.ending,
    idle_timeout.ending,
)
"""Policies in this order; the first that applies decides."""
DEADLINES: Final = (
    node_lost.deadline,
    pod_exits.deadline,
    start_obstacles.deadline,
    blocked_start.deadline,
    start_timeout.deadline,
    max_runtime.deadline,
    idle_timeout.deadline,
)
