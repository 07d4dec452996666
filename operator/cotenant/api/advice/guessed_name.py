"""One row of the tables of guessed names, and the three kinds of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cotenant.api.advice import carried_over
from cotenant.api.advice.corrections import Correction


@dataclass(frozen=True, slots=True)
class GuessedName:
    """Names of no field. `read` puts the given value into the right one; where it cannot, `example` is shown."""

    names: tuple[str, ...]
    example: Correction
    """Empty: there is nothing to write instead, the field is left out."""
    read: Callable[[Any], Correction | None]
    why: str = ""
    """Besides: what a person from another system should know."""
    moved: bool = False
    """The value itself goes on under another name."""


def renamed(
    names: str, path: str, example: Any, read: Callable[[Any], Any] = carried_over.same, why: str = ""
) -> GuessedName:
    """One field by another name, at `path`."""

    def correct(value: Any) -> Correction | None:
        found = read(value)
        return None if found is None else {path: found}

    moved = read in {carried_over.counted, carried_over.whole, carried_over.text, carried_over.same}
    return GuessedName(tuple(names.split()), {path: example}, correct, why, moved)


def taken_apart(
    names: str, read: Callable[[Any], Correction | None], example: Correction, why: str = ""
) -> GuessedName:
    """Several fields in one object."""
    return GuessedName(tuple(names.split()), example, read, why)


def left_out(names: str, why: str) -> GuessedName:
    """Nothing to write instead."""
    return GuessedName(tuple(names.split()), {}, lambda value: None, why)
