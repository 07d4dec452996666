"""What is enforced on a job's GPUs. A contradiction ends the attempt; a change of the level is explained. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cotenant.api.resources.placement_status import IsolationLevels
from cotenant.api.resources.trainingjob_status import ExitStatus, TrainingJobStatus
from cotenant.controller.isolation.verification import is_lower
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.policies import retries
from cotenant.controller.lifecycle.policies.blocked_start import excluded
from cotenant.controller.lifecycle.termination import Ending, Eviction
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase

MISMATCH: Final = "IsolationMismatch"
LOWERED: Final = "IsolationLowered"
VERIFIED: Final = "IsolationVerified"


def ending(o: Observation, settings: Settings) -> Ending | None:
    """End the attempt if a pod sees other GPUs than it was given, or has other limits.

    It is a fault of the platform and of that node. The job avoids the node for a while and is not charged.
    """
    verification = o.of_placement.isolation
    if not verification.mismatch:
        return None
    seen = ExitStatus(code=-1, reason=MISMATCH, message=verification.mismatch, node=verification.node, at=o.now)
    ended = retries.decide(o, AttemptEnd(outcome=AttemptOutcome.PLATFORM_FAULT, exit=seen), settings)
    if not isinstance(ended, Eviction) or verification.node is None:
        return ended
    avoided = excluded(o.status, {verification.node: MISMATCH}, o.now + settings.exclude_s, o.now)
    return replace(ended, fields={**ended.fields, "excluded_nodes": avoided})


def with_levels(o: Observation, result: ReconcileResult) -> ReconcileResult:
    """The result, with the isolation levels written if they changed.

    A level that falls is an Event of its own. While the job starts, levels are written only together with another
    change.
    """
    held, status, before = o.of_placement.isolation.levels, result.status or o.status, published(o.status)
    waits = o.phase is not Phase.RUNNING and result.status is None and not is_lower(held, before)
    if waits or (before == held and o.status.isolation_levels is not None):
        return result
    changed = status.model_copy(update={"isolation": held.memory, "isolation_levels": held})
    step = replace(result, status=changed)
    if is_lower(held, before):
        message = f"{_shown(before)} before, now {_shown(held)}: {WHY}"
        return step.with_event(EventToRecord(reason=LOWERED, message=message, warning=True))
    if result.event is None and before != held:  # else it is no news worth a second Event: the status has the levels
        return step.with_event(EventToRecord(reason=VERIFIED, message=f"{_shown(held)}, read back from the driver"))
    return step


WHY: Final = "what was verified before is not found any more; GPUNode.status.capabilities.paths may have the reason"


def published(status: TrainingJobStatus) -> IsolationLevels:
    """Levels in a status of an earlier operator, which knew only one dimension."""
    if status.isolation_levels is not None:
        return status.isolation_levels
    return IsolationLevels() if status.isolation is None else IsolationLevels(memory=status.isolation)


def _shown(levels: IsolationLevels) -> str:
    return f"memory {levels.memory.value}, compute {levels.compute.value}"
