"""Conditions of a job that holds GPUs while its Queue or its PriorityClass is deleted. Nothing ends by that. Pure."""

from __future__ import annotations

from dataclasses import replace

from cotenant.api.resources.trainingjob_status import Condition
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.status_transitions import CLASS_MISSING, QUEUE_MISSING, with_condition

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
    before = next((one for one in o.status.conditions if one.type == kind), None)
    if bool(missing) == (before is not None and before.status == "True"):
        return result
    name = kind.removesuffix("Missing")
    message = f"there is no {name} {missing!r} in this cluster; {meaning}" if missing else f"the {name} is there"
    status = result.status or o.status
    condition = Condition(
        type=kind,
        status=str(bool(missing)),
        reason=f"{name}Deleted" if missing else f"{name}Found",
        message=message,
        last_transition_time=o.now,
        observed_generation=o.record.generation,
    )
    changed = status.model_copy(update={"conditions": with_condition(status, condition)})
    event = EventToRecord(reason=kind, message=message, warning=True) if missing else None
    return replace(result, status=changed).with_event(event)
