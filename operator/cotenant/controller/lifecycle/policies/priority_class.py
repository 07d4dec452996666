"""Condition `PriorityClassMissing` of a job that holds GPUs: its class was deleted, its priority stays. Pure."""

from __future__ import annotations

from dataclasses import replace

from cotenant.api.resources.trainingjob_status import Condition
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.status_transitions import CLASS_MISSING, with_condition


def with_class_condition(o: Observation, result: ReconcileResult) -> ReconcileResult:
    """The result, with the condition if the class was deleted or came back. A deletion is an Event too."""
    before = next((one for one in o.status.conditions if one.type == CLASS_MISSING), None)
    if bool(o.missing_class) == (before is not None and before.status == "True"):
        return result
    message = (
        f"there is no PriorityClass {o.missing_class!r} in this cluster; the job keeps the priority of its admission"
        " until the class is back"
        if o.missing_class
        else "the PriorityClass is there"
    )
    status = result.status or o.status
    condition = Condition(
        type=CLASS_MISSING,
        status=str(bool(o.missing_class)),
        reason="ClassDeleted" if o.missing_class else "ClassFound",
        message=message,
        last_transition_time=o.now,
        observed_generation=o.record.generation,
    )
    changed = status.model_copy(update={"conditions": with_condition(status, condition)})
    event = EventToRecord(reason=CLASS_MISSING, message=message, warning=True) if o.missing_class else None
    return replace(result, status=changed).with_event(event)
