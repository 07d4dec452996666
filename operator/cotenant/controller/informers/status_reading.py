"""Reads the status of a TrainingJob that a newer release may have written, as after a rollback. Pure.

Unknown fields are dropped. An unknown word reads as the default of its field. If the phase is unknown, or the status
cannot be read for another reason, the job is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from cotenant.api.resources.trainingjob_status import TrainingJobStatus

_WORDS: Final = frozenset({"enum", "literal_error"})


@dataclass(frozen=True, slots=True)
class StatusRead:
    status: TrainingJobStatus
    problem: str | None = None
    """Why the job is left alone. Its placement counts as far as it could be read."""


def read_status(raw: Mapping[str, Any]) -> StatusRead:
    try:
        return StatusRead(TrainingJobStatus.model_validate(raw))
    except ValidationError as error:
        errors = error.errors()
    known = deepcopy(dict(raw))
    problems = []
    for one in errors:
        path = one["loc"] if one["type"] in _WORDS else one["loc"][:1]
        if one["type"] not in _WORDS or path == ("phase",):
            problems.append(f"status.{'.'.join(map(str, one['loc']))}: {one['msg']}")
        _remove(known, path)
    try:
        status = TrainingJobStatus.model_validate(known)
    except ValidationError as error:
        return StatusRead(TrainingJobStatus(), f"status: {error.errors()[0]['msg']}")
    return StatusRead(status, "; ".join(problems) or None)


def _remove(document: dict[str, Any], path: tuple[int | str, ...]) -> None:
    """Leave out the field at the path, if it is still there."""
    *above, last = path
    at: Any = document
    for part in above:
        at = at.get(part) if isinstance(at, dict) else at[part]
        if not isinstance(at, dict | list):
            return
    if isinstance(at, dict):
        at.pop(last, None)
