"""The evaluator of a job that runs: its pod, its state, and its last minutes after the job. Pure.

Nothing here ends an attempt or holds one up. The pod is made when the ranks run, so that it takes no CPU that a rank
was promised. Its kubelet starts a program that failed again. A pod that is lost or cannot be made is tried again after
a pause that doubles, from `PAUSE_MIN_S` to `PAUSE_MAX_S`; the status says from when on, before the try.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import EVALUATOR_MESSAGE_CHARS_MAX, EvaluatorStatus
from cotenant.api.scalars.status_fields import cut
from cotenant.api.scalars.status_text import plain_sentence, plain_word
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.failure_classification import DELETED_UNSEEN, exit_status
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.policies import start_obstacles
from cotenant.controller.lifecycle.status_transitions import EVALUATOR_OVER, evaluator_stopped
from cotenant.controller.lifecycle.termination import evaluator_until
from cotenant.core.model.lifecycle import Phase

PAUSE_MIN_S, PAUSE_MAX_S = 10, 300
FAILED: Final = "EvaluatorFailed"
REFUSED: Final = "PodRefused"


def with_evaluator(o: Observation, result: ReconcileResult) -> ReconcileResult:
    """The result, with the evaluator's state, and its pod if one is due."""
    if o.spec is None or o.spec.evaluator is None or o.phase is not Phase.RUNNING or result.delete_job:
        return result
    status, pod = result.status or o.status, o.evaluator
    known = status.evaluator or EvaluatorStatus()
    found = _absent(o, known) if pod is None else _present(o, pod, known)
    create = _is_due(o, found)
    if create:
        pause_s = min(PAUSE_MIN_S * 2 ** min(found.pods, 16), PAUSE_MAX_S)
        again = EvaluatorStatus(retry_at=o.now + pause_s).retry_at
        found = found.model_copy(update={"pods": found.pods + 1, "retry_at": again})
    waits = pod is None and found.state not in EVALUATOR_OVER
    times = [result.requeue_at, unix_seconds(found.retry_at) if waits else None]
    over = (pod,) if pod is not None and _is_lost(pod) and not pod.deleting else ()
    step = result.with_event(_event(known, found))
    return replace(
        step,
        status=status.model_copy(update={"evaluator": found}) if found != known else result.status,
        delete_pods=(*result.delete_pods, *over),
        create_evaluator=create,
        requeue_at=min((at for at in times if at is not None), default=None),
    )


def after_the_job(o: Observation) -> ReconcileResult:
    """The step of a job that is over: its pods end, the evaluator of one that succeeded when its time is over."""
    ended_at, pod = unix_seconds(o.status.finished_at), o.evaluator
    known, until = o.status.evaluator, 0.0
    if o.phase is Phase.SUCCEEDED and ended_at is not None and pod is not None and pod.held and not pod.deleting:
        until = evaluator_until(o, ended_at)
    if o.now < until:
        return ReconcileResult(delete_pods=tuple(one for one in o.stoppable if one is not pod), requeue_at=until)
    if known is None or known.state in EVALUATOR_OVER:
        return ReconcileResult(delete_pods=o.stoppable)
    found = _present(o, pod, known) if pod is not None and pod.exit is not None else known
    if found.state not in EVALUATOR_OVER:
        found = evaluator_stopped(o.status.model_copy(update={"evaluator": found})) or found
    return ReconcileResult(status=o.status.model_copy(update={"evaluator": found}), delete_pods=o.stoppable)


def _is_due(o: Observation, found: EvaluatorStatus) -> bool:
    """True if a pod of the evaluator has to be made now. One of an earlier attempt has to be gone first."""
    retry_at = unix_seconds(found.retry_at)
    earlier = any(pod.held and not pod.is_of_gang for pod in o.pods)
    absent = o.evaluator is None and found.state not in EVALUATOR_OVER and not earlier
    return absent and (retry_at is None or o.now >= retry_at)


def _absent(o: Observation, known: EvaluatorStatus) -> EvaluatorStatus:
    """State of an evaluator without a pod: not made yet, refused, or lost."""
    if known.state in EVALUATOR_OVER:
        return known
    if (refusal := o.of_placement.evaluator_refusal) is not None:
        return _told(known, "Starting", REFUSED, refusal)
    if known.state in {"", "Starting"}:
        return _told(known, "Starting", known.reason, known.message)
    if known.state == "Restarting":
        return known
    name = o.pod_name(o.size)
    lost = o.of_pods.disruptions.get(name, DELETED_UNSEEN)
    return _told(known, "Restarting", lost.reason, f"pod {name} {lost.description}")


def _present(o: Observation, pod: PodRecord, known: EvaluatorStatus) -> EvaluatorStatus:
    known = known.model_copy(update={"restarts": pod.restarts})
    if pod.exit is not None and pod.exit.code == 0:
        return _told(known, "Ended", "Completed", "its program ended with 0").model_copy(update={"retry_at": None})
    if pod.exit is not None:
        said = exit_status(pod)
        return _told(known, "Restarting", said.reason, said.message)
    failed = exit_status(replace(pod, exit=pod.earlier_exit)) if pod.earlier_exit is not None else None
    if failed is not None and not pod.ready:
        return _told(known, "Restarting", failed.reason, failed.message)
    if pod.ready:
        return _told(known, "Running", failed.reason if failed else "", failed.message if failed else "")
    if pod.waiting:
        obstacle = start_obstacles.of_waiting(pod)
        return _told(known, "Starting", obstacle.reason, obstacle.message)
    at = start_obstacles.reportable_at(o, pod)
    if at is not None and o.now >= at:
        return _told(known, "Starting", "", start_obstacles.of_silent(o, pod).message)
    return _told(known, "Starting", known.reason, known.message)


def _is_lost(pod: PodRecord) -> bool:
    """True if the pod has failed for good: another one takes its name."""
    return pod.exit is not None and pod.exit.code != 0


def _told(known: EvaluatorStatus, state: str, reason: str, message: str) -> EvaluatorStatus:
    short = cut(plain_sentence(message), EVALUATOR_MESSAGE_CHARS_MAX)  # as it is read back
    return known.model_copy(update={"state": state, "reason": cut(plain_word(reason), 64), "message": short})


def _event(known: EvaluatorStatus, found: EvaluatorStatus) -> EventToRecord | None:
    """An Event when it fails or cannot start, unless it was told already."""
    if (found.state, found.message) == (known.state, known.message) or not found.message:
        return None
    news = {
        "Restarting": (FAILED, f"the evaluator failed and is started again: {found.message}"),
        "Starting": (found.reason or "EvaluatorNotStarted", found.message),
    }.get(found.state)
    return None if news is None else EventToRecord(reason=news[0], message=news[1], warning=True, once=True)
