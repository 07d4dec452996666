"""Problems of a document in words: the field, what was given, what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from cotenant.api.validation.problems import Problem
from cotenant.api.validation.rules import VIOLATED_RULES, ValueRefusedError, given


@dataclass(frozen=True, slots=True)
class Rejection:
    """One error of pydantic, from which an answer is made."""

    type: str
    location: tuple[str | int, ...]
    value: Any
    """The given value; for a missing field, the object that lacks it."""
    cause: Exception | None = None


def problems_of(
    error: ValidationError, answer: Callable[[Rejection], str] = lambda rejection: ""
) -> tuple[Problem, ...]:
    """Problems that pydantic found, with fields spelled as in the document. `answer` adds what to write instead."""
    return tuple(problem for one in error.errors() for problem in _problems(one, answer))


def field_path(location: Sequence[str | int]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path and part else part
    return path


def _problems(error: Any, answer: Callable[[Rejection], str]) -> Iterator[Problem]:
    field = field_path(error["loc"])
    if error["type"] == VIOLATED_RULES:
        for inner, message in error["ctx"]["broken"]:
            instead = answer(Rejection(VIOLATED_RULES, (*error["loc"], inner), error.get("input")))
            path = f"{field}{inner}" if inner.startswith("[") else field_path([field, inner])
            yield Problem(path, _with(message, instead))
        return
    if error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]:
        return  # pydantic counts the entries that are good; the bad ones have a problem each
    cause = (error.get("ctx") or {}).get("error")
    rejection = Rejection(error["type"], tuple(error["loc"]), error.get("input"), cause)
    instead = answer(rejection)
    yield Problem(field, _with(_message(error, rejection, instead), instead))


def _with(message: str, instead: str) -> str:
    return f"{message}; {instead}" if instead else message


MISSING = "is required"
_WORDS = {
    "missing": MISSING,
    "extra_forbidden": "is not a field of this object",
    "value_error": "{error}",
    "literal_error": "must be {expected}, not {given}",
    "enum": "must be {expected}, not {given}",
    "greater_than_equal": "must be at least {ge}, not {given}",
    "less_than_equal": "must be at most {le}, not {given}",
    "too_long": "has too many entries: at most {max_length}",
    "string_too_long": "is too long: at most {max_length} characters",
    "too_short": "has too few entries: at least {min_length}",
    "string_too_short": "is too short: a text of at least {min_length} is needed",
    "int_type": "must be a whole number, not {given}",
    "int_from_float": "must be a whole number, not {given}",
    "bool_type": "must be true or false, not {given}",
    "string_unicode": "holds what is no character of UTF-8: {given}; write the text without it",
    "string_type": "must be a text, not {given}; put it in quotes",
    "tuple_type": "must be a list, not {given}",
    "list_type": "must be a list, not {given}",
    "dict_type": "must be an object with fields, not {given}",
    "model_type": "must be an object with fields, not {given}",
    "model_attributes_type": "must be an object with fields, not {given}",
}
"""pydantic's error types → messages; `given` and the error's own context are filled in."""


def _message(error: Any, rejection: Rejection, instead: str) -> str:
    if isinstance(rejection.cause, ValueRefusedError) and instead:
        return f"{rejection.cause.takes}, not {given(rejection.value)}"
    if rejection.type == "string_type" and instead:
        return f"must be a text, not {given(rejection.value)}"
    words = _WORDS.get(rejection.type, "{msg}, given {given}")
    return words.format(**(error.get("ctx") or {}), msg=error["msg"], given=given(rejection.value))
