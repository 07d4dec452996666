"""Problems of a document in words: the field, what was given, what is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from cotenant.api.validation.rules import VIOLATED_RULES, given
from cotenant.decoding.plain_text import plain_text

PROBLEM_CHARS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Problem:
    field: str
    """As in the document: `spec.gpu.memoryFraction`, `spec.runtime.env[2].name`."""
    message: str

    def __str__(self) -> str:
        """Plain text: both quote what somebody wrote."""
        return plain_text(f"{self.field}: {self.message}" if self.field else self.message, PROBLEM_CHARS_MAX)


class DocumentError(ValueError):
    """Refusal of a document; `problems` has all that was found, one per field."""

    def __init__(self, problems: Sequence[Problem], where: str = "") -> None:
        self.problems = tuple(problems)
        self.where = where
        text = "; ".join(str(problem) for problem in self.problems)
        super().__init__(f"{where}: {text}" if where else text)


def problems_of(error: ValidationError) -> tuple[Problem, ...]:
    """Problems that pydantic found, fields spelled as in the document."""
    return tuple(problem for one in error.errors() for problem in _problems(one))


def field_path(location: Sequence[str | int]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path and part else part
    return path


def _problems(error: Any) -> Iterator[Problem]:
    field = field_path(error["loc"])
    if error["type"] == VIOLATED_RULES:
        for inner, message in error["ctx"]["broken"]:
            yield Problem(f"{field}{inner}" if inner.startswith("[") else field_path([field, inner]), message)
        return
    yield Problem(field, _message(error))


_WORDS = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this object",
    "value_error": "{error}",
    "literal_error": "must be {expected}, not {given}",
    "enum": "must be {expected}, not {given}",
    "greater_than_equal": "must be at least {ge}, not {given}",
    "less_than_equal": "must be at most {le}, not {given}",
    "too_long": "is too long: at most {max_length}",
    "string_too_long": "is too long: at most {max_length} characters",
    "too_short": "is too short: at least {min_length}",
    "string_too_short": "is too short: at least {min_length}",
    "int_type": "must be a whole number, not {given}",
    "int_from_float": "must be a whole number, not {given}",
    "bool_type": "must be true or false, not {given}",
    "string_type": "must be a text, not {given}; put it in quotes",
    "tuple_type": "must be a list, not {given}",
    "list_type": "must be a list, not {given}",
    "dict_type": "must be an object with fields, not {given}",
    "model_type": "must be an object with fields, not {given}",
    "model_attributes_type": "must be an object with fields, not {given}",
}
"""pydantic's error types → messages; `given` and the error's own context are filled in."""


def _message(error: Any) -> str:
    words = _WORDS.get(error["type"], "{msg}, given {given}")
    return words.format(**(error.get("ctx") or {}), msg=error["msg"], given=given(error.get("input")))
