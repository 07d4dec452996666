"""Parameters of a sweep: what may differ between trials, and its bounds."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Final, TypeAlias

from pydantic import Field, Strict

from cotenant.api.resources.job_spec import reserved_env
from cotenant.api.scalars.fields import Str, cel_text, text, whole
from cotenant.api.validation.rules import Model, Rule

MAX_CHOICES: Final = 64
LARGEST: Final = 1_000_000_000
"""Largest whole number. Other numbers may be a thousand times as large."""
NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,31}$"
_CHOICE: Final = r"^[-A-Za-z0-9._:/@+,=% ]{1,64}$"

Choice: TypeAlias = Annotated[
    Str,
    *text(_CHOICE, "must be a text of at most 64 letters, digits, spaces and -._:/@+,=%", longest=64),
]
"""Without characters that JSON escapes, so that its length is its size in the status."""
Number: TypeAlias = Annotated[float, Strict(), Field(ge=-1000.0 * LARGEST, le=1000.0 * LARGEST, allow_inf_nan=False)]


class Scale(StrEnum):
    LINEAR = "Linear"
    LOG = "Log"


class IntegerRange(Model):
    """Whole numbers from `min` to `max`."""

    min: Annotated[int, *whole(-LARGEST, LARGEST)]
    """The smallest."""
    max: Annotated[int, *whole(-LARGEST, LARGEST)]
    """The largest."""
    step: Annotated[int, *whole(1, LARGEST)] = 1
    """Distance between two values, counted from `min`."""
    scale: Scale = Scale.LINEAR
    """Log: as many trials between 1 and 10 as between 10 and 100."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("max", "self.min <= self.max", "max must be at least min", lambda it: it.min <= it.max),
        Rule(
            "min",
            "self.scale != 'Log' || self.min >= 1",
            "with scale: Log, min must be at least 1",
            lambda it: it.scale is not Scale.LOG or it.min >= 1,
        ),
        Rule(
            "step",
            "self.scale != 'Log' || self.step == 1",
            "with scale: Log there is no step; leave it out",
            lambda it: it.scale is not Scale.LOG or it.step == 1,
        ),
    )

    @property
    def points(self) -> int:
        return (self.max - self.min) // self.step + 1


class NumberRange(Model):
    """Numbers from `min` to `max`."""

    min: Number
    """The smallest."""
    max: Number
    """The largest."""
    scale: Scale = Scale.LINEAR
    """Log: as many trials between 0.001 and 0.01 as between 0.01 and 0.1."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("max", "self.min < self.max", "max must be more than min", lambda it: it.min < it.max),
        Rule(
            "min",
            "self.scale != 'Log' || self.min > 0.0",
            "with scale: Log, min must be more than 0",
            lambda it: it.scale is not Scale.LOG or it.min > 0.0,
        ),
    )


def _denied(row: reserved_env.Denied) -> Rule:
    return Rule(
        "env",
        f"!has(self.env) || !self.env.matches({cel_text(row.names)})",
        f"this variable is not for the job to set: {row.why}; take another name",
        lambda it: it.env is None or re.fullmatch(row.names, it.env) is None,
    )


class Parameter(Model):
    """One parameter: a list of values, or a range of whole numbers or of numbers."""

    name: Annotated[Str, *text(NAME, "must be a name of at most 32 letters, digits and '_', such as lr", longest=32)]
    """`$(params.<name>)` in command, args and the values of env stands for the value."""
    env: (
        Annotated[Str, *text(reserved_env.NAME, "must be the name of a variable: letters, digits and '_'", longest=128)]
        | None
    ) = None
    """Variable of the program that also has the value."""
    choices: Annotated[tuple[Choice, ...], Field(min_length=1, max_length=MAX_CHOICES)] | None = None
    """Values, as texts."""
    integer: IntegerRange | None = None
    """A range of whole numbers."""
    number: NumberRange | None = None
    """A range of numbers."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "",
            "(has(self.choices) ? 1 : 0) + (has(self.integer) ? 1 : 0) + (has(self.number) ? 1 : 0) == 1",
            "a parameter takes exactly one of choices (a list of texts), integer and number (with min and max); leave"
            " the others out",
            lambda it: [it.choices, it.integer, it.number].count(None) == 2,  # three ways to say it
        ),
        Rule(
            "choices",
            "self.all(a, self.exists_one(b, a == b))",
            "a choice appears twice; leave one of the two out",
            lambda it: it.choices is None or len(set(it.choices)) == len(it.choices),
            about_field=True,
        ),
        *(_denied(row) for row in reserved_env.DENIED),
        _denied(reserved_env.Denied(reserved_env.ALLOCATOR, "it sets the memory limit")),
    )

    @property
    def reference(self) -> str:
        """How it is written in the template."""
        return f"$(params.{self.name})"

    @property
    def points(self) -> float:
        """Number of its values; infinite for a range of numbers."""
        if self.choices is not None:
            return len(self.choices)
        return self.integer.points if self.integer is not None else float("inf")
