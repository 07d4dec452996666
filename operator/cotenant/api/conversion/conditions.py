"""Conditions of a status: find one, and make its next version, which keeps the time of its last change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cotenant.api.resources.trainingjob_status import Condition


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    return next((one for one in conditions if one.type == kind), None)


def find_true(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of this kind, if it is true."""
    return next((one for one in conditions if one.type == kind and one.status == "True"), None)


def without(conditions: Iterable[Condition], kind: str) -> tuple[Condition, ...]:
    return tuple(one for one in conditions if one.type != kind)


def replaced(conditions: Sequence[Condition], made: Condition) -> tuple[Condition, ...]:
    """The conditions with this one, which takes the place of an earlier one of its kind."""
    if find(conditions, made.type) is None:
        return (*conditions, made)
    return tuple(made if one.type == made.type else one for one in conditions)


def renewed(
    conditions: Iterable[Condition],
    kind: str,
    status: str,
    reason: str,
    message: str = "",
    *,
    at: float,
    generation: int = 0,
) -> Condition:
    """The condition of this kind as of `at` (Unix seconds). While its status stays, so does its transition time."""
    before = find(conditions, kind)
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=before.last_transition_time if before is not None and before.status == status else at,
        observed_generation=generation,
    )
