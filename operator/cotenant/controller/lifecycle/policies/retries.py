"""`spec.retries`, and the platform's own retries: whether an attempt that ended is tried again. Pure.

A failure of the job counts against `spec.retries`. A fault of the platform does not, but several of them in a row end
the job too. A disruption from outside counts against neither.
"""

from __future__ import annotations

from typing import Any

from cotenant.api.resources.trainingjob_status import ExitStatus
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.policies import share_suggestion
from cotenant.controller.lifecycle.termination import Ending, Eviction, Finish, completion
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent


def decide(o: Observation, end: AttemptEnd, settings: Settings) -> Ending:
    """Complete the job, requeue it, or give it up."""
    if end.outcome is AttemptOutcome.COMPLETED:
        return completion(o, end)
    if (again := share_suggestion.too_small(o, end)) is not None:
        return again
    message, reason = end.exit.message if end.message_is_complete else exit_message(end.exit), end.exit.reason
    failed = end.outcome is AttemptOutcome.FAILED
    failures = o.status.failures + (failed or end.outcome is AttemptOutcome.NON_RETRIABLE)
    fields: dict[str, Any] = {"last_exit": end.exit, "failures": failures}
    fields |= _count_platform_fault(o) if end.outcome is AttemptOutcome.PLATFORM_FAULT else {}
    faults = fields.get("faults", o.status.faults)
    retries = o.spec.retries if o.spec else 0
    out_of_retries = end.outcome is AttemptOutcome.NON_RETRIABLE or (failed and failures > retries)
    if out_of_retries or faults > settings.platform_retries:
        why = f"{message}; all {retries} retries are used" if failed and retries != 0 else message
        return Finish(event=LifecycleEvent.GAVE_UP, reason=reason, message=why, fields=fields)
    disrupted = end.outcome is AttemptOutcome.EXTERNAL_DISRUPTION
    event = LifecycleEvent.EVICTED if disrupted else LifecycleEvent.CRASHED
    return Eviction(event=event, kind=reason, message=f"{message}; the job will be tried again", fields=fields)


def exit_message(exit_status: ExitStatus) -> str:
    """The worker's own sentence with the place of the rank added; if there is none, the exit code."""
    at = [f"pod {exit_status.pod}"] if exit_status.pod else []
    at += [f"on node {exit_status.node}"] if exit_status.node else []
    where, rank = f" ({' '.join(at)})" if at else "", f"rank {exit_status.rank}"
    before, found, rest = exit_status.message.partition(rank)
    if found and exit_status.rank is not None and not rest[:1].isdigit():
        return f"{before}{rank}{where}{rest}"
    if exit_status.pod and exit_status.pod in exit_status.message:
        return exit_status.message
    subject = rank if exit_status.rank is not None else "the job"
    how = f"{subject}{where} ended with {exit_status.code} ({exit_status.reason})"
    return f"{how}: {exit_status.message}" if exit_status.message else how


def _count_platform_fault(o: Observation) -> dict[str, Any]:
    """Number of platform faults in a row, with this one.

    A checkpoint since the last fault starts the count anew: a job that makes progress is never given up for faults.
    """
    terminations = [pod.exit.termination for pod in o.gang.values() if pod.exit and pod.exit.termination]
    steps = [one.last_checkpoint_step for one in terminations]
    polled = o.progress or o.status.progress
    steps += [polled.last_checkpoint.step] if polled and polled.last_checkpoint else []
    before = o.status.saved_at_fault
    newest = max((step for step in (*steps, before) if step is not None), default=None)
    gets_on = newest is not None and (before is None or newest > before)
    return {"faults": 1 if gets_on else o.status.faults + 1, "saved_at_fault": newest}
