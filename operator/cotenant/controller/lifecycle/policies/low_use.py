"""Condition `LowUse` of a running job: what it leaves unused, what to try, and what that brings. Pure.

It is written when it begins, ends or gets another reason. Its figures are those of that moment and are not updated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cotenant.api.conversion.conditions import find_true
from cotenant.api.resources.trainingjob_status import LOW_USE, TrainingJobStatus
from cotenant.api.scalars.status_text import plain_sentence
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.status_transitions import told
from cotenant.core.model.lifecycle import Phase
from cotenant.decision_log.low_use import LowUse

WELL_USED: Final = "WellUsed"


def said_of(status: TrainingJobStatus) -> LowUse | None:
    """The kind of low use that the status shows; None if it shows none, or a word of another release."""
    found = find_true(status.conditions, LOW_USE)
    return LowUse(found.reason) if found is not None and found.reason in set(LowUse) else None


def with_condition(o: Observation, result: ReconcileResult) -> ReconcileResult:
    """The result, with the condition if it changed. A new condition is an Event too."""
    finding = o.low_use
    if finding is None or o.phase is not Phase.RUNNING or finding.kind is said_of(o.status):
        return result
    said, reason = plain_sentence(finding.message), finding.kind or WELL_USED
    changed = told(result.status or o.status, LOW_USE, finding.kind is not None, reason, said, at=o.now)
    begun = EventToRecord(reason=LOW_USE, message=f"{finding.kind}: {finding.message}") if finding.kind else None
    return replace(result, status=changed).with_event(begun)
