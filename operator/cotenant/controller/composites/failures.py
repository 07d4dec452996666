"""Failures of one composite: its condition, and the pauses between tries. Pure.

As with a job's quarantine, pauses grow with the time since the first failure. The condition keeps that time, so a new
leader goes on with the same pauses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.contract.decoding.plain_text import plain_text
from cotenant.controller.client.kube import RefusedError
from cotenant.controller.composites.composite import Observed
from cotenant.controller.informers.quarantine import CONDITION, FORGET_S, MESSAGE_CHARS_MAX, Stage, pause_s
from cotenant.controller.telemetry.logs import error_text, shorten


class OwnershipError(RuntimeError):
    """The name of an object to be made is in use by an object that the composite does not own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One or more failures in a row."""

    stage: Stage
    message: str
    since: float
    """Time of the first one, Unix seconds."""
    at: float
    """Time of the last one."""
    generation: int
    """Generation of the document that failed."""

    def holds(self, generation: int, now: float) -> bool:
        """True while the object is left alone. An edited document is tried at once."""
        return generation == self.generation and now < self.retry_at

    @property
    def retry_at(self) -> float:
        return self.at + pause_s(self.since, self.at, holding=False)


def failure_after(before: Failure | None, observed: Observed, stage: Stage, error: Exception, now: float) -> Failure:
    """One more failure. It continues an earlier one that ended lately, also one of an earlier leader."""
    since = now
    if before is not None and now - before.at < FORGET_S:
        since = before.since
    elif (written := written_condition(observed.status)) is not None and written.get("status") == "True":
        since = min(now, unix_seconds(Condition.model_validate(written).last_transition_time) or now)
    text = str(error) if isinstance(error, OwnershipError | RefusedError) else error_text(error)
    sentence = f"{text}; it is tried again with growing pauses, and other objects go on without it"
    return Failure(
        stage=stage,
        message=shorten(plain_text(sentence, 2 * MESSAGE_CHARS_MAX), MESSAGE_CHARS_MAX),
        since=since,
        at=now,
        generation=observed.generation,
    )


def written_condition(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition in the stored status."""
    return next((one for one in status.get("conditions") or () if one.get("type") == CONDITION), None)


def with_failure(status: Mapping[str, Any], failure: Failure) -> dict[str, Any]:
    """The status with the condition of this failure."""
    made = Condition(
        type=CONDITION,
        status="True",
        reason=failure.stage.value,
        message=failure.message,
        last_transition_time=failure.since,
        observed_generation=failure.generation,
    )
    return _with(status, made.to_document())


def with_success(wanted: Mapping[str, Any], written: Mapping[str, Any], generation: int, now: float) -> dict[str, Any]:
    """The wanted status. If the stored condition is true, it becomes false."""
    before = written_condition(written)
    if before is None:
        return dict(wanted)
    if before.get("status") != "True":
        return _with(wanted, dict(before))
    lifted = Condition(
        type=CONDITION,
        status="False",
        reason="Lifted",
        message="the operator continues with the object",
        last_transition_time=now,
        observed_generation=generation,
    )
    return _with(wanted, lifted.to_document())


def _with(status: Mapping[str, Any], condition: dict[str, Any]) -> dict[str, Any]:
    others = [one for one in status.get("conditions") or () if one.get("type") != CONDITION]
    return {**status, "conditions": [*others, condition]}
