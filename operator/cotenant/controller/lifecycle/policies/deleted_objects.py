"""Conditions of a job that holds GPUs while its Queue or its PriorityClass is deleted. Nothing ends by that. Pure."""

from __future__ import annotations

from dataclasses import replace

from cotenant.api.conversion.conditions import find_true
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.status_transitions import CLASS_MISSING, QUEUE_MISSING, told

_CLASS = "the job keeps the priority of its admission until the class is back"
_QUEUE = (
    "what the job holds counts as borrowed, so that queues with a guarantee may have it back. If the job has to leave,"
    " it starts again once the Queue is back"
)


def with_conditions(o: Observation, result: ReconcileResult) -> ReconcileResult:
    """The result, with the condition of each object that was deleted or came back. A deletion is an Event too."""
    result = _with_condition(o, result, CLASS_MISSING, (o.missing_class, _CLASS))
    return _with_condition(o, result, QUEUE_MISSING, (o.missing_queue, _QUEUE))


def _with_condition(o: Observation, result: ReconcileResult, kind: str, gone: tuple[str, str]) -> ReconcileResult:
    """`gone`: name of the object, empty if it is there; what that means for the job."""
    missing, meaning = gone
    if bool(missing) == (find_true(o.status.conditions, kind) is not None):
        return result
    name = kind.removesuffix("Missing")
    message = f"there is no {name} {missing!r} in this cluster; {meaning}" if missing else f"the {name} is there"
    reason, generation = f"{name}Deleted" if missing else f"{name}Found", o.record.generation
    changed = told(result.status or o.status, kind, bool(missing), reason, message, at=o.now, generation=generation)
    event = EventToRecord(reason=kind, message=message, warning=True) if missing else None
    return replace(result, status=changed).with_event(event)
