"""Data that is fetched before the ranks start, while GPUs wait for it: its message and condition. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cotenant.controller.lifecycle import staged_data, status_transitions
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.core.model.formatting import counted, format_duration
from cotenant.core.model.lifecycle import Phase

REASON: Final = "StagingData"
STAGED: Final = "DataStaged"


def with_message(o: Observation, result: ReconcileResult) -> ReconcileResult:
    """The result, with the message and the condition of a running job that stages data, or has staged it."""
    if o.phase is not Phase.RUNNING or o.progress is None or o.progress.staging is None:
        return result
    status, staging = result.status or o.status, o.progress.staging
    if o.progress.state == staged_data.STATE:
        rate = f" ({staged_data.amount(staging.bytes_per_second)}/s)" if staging.bytes_per_second else ""
        message = f"{o.progress.summary}{rate}; the GPUs are held meanwhile"
        return replace(result, status=status_transitions.explained(status, reason=REASON, message=message, now=o.now))
    if o.status.reason != REASON:
        return result
    took = format_duration(staging.seconds)
    told = f"{staged_data.amount(staging.of_bytes)} of data staged in {took}"
    message = f"{counted(o.workers, 'worker')} running in {counted(o.nodes, 'pod')}; {told}"
    changed = status_transitions.explained(status, reason="Running", message=message, now=o.now)
    event = EventToRecord(reason=STAGED, message=f"{told}, with the GPUs held")
    return replace(result, status=changed).with_event(event)
