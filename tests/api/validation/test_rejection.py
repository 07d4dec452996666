"""Problems name the field as the document spells it, the value, and what is allowed."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import ValidationError

from cotenant.api.scalars.fields import Str, whole
from cotenant.api.validation.problems import Problem
from cotenant.api.validation.rejection import field_path, problems_of
from cotenant.api.validation.rules import Model, Rule


class Part(Model):
    only_one: int | None = None
    kind: Str = ""

    RULES = (Rule("onlyOne", "true", "takes no 13", lambda it: it.only_one != 13),)


class Whole(Model):
    parts: tuple[Part, ...] = ()
    name: Str


@pytest.mark.parametrize(
    ("location", "want"),
    [((), ""), (("spec",), "spec"), (("spec", "env", 2, "name"), "spec.env[2].name"), ((0, "name"), "[0].name")],
)
def test_a_location_is_written_as_a_path(location: tuple[str | int, ...], want: str) -> None:
    assert field_path(location) == want


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"name": "a", "other": 1}, Problem("other", "is not a field of this object")),
        ({}, Problem("name", "is required")),
        ({"name": 2}, Problem("name", "must be a text, not 2; put it in quotes")),
        ({"name": "a", "parts": 3}, Problem("parts", "must be a list, not 3")),
        ({"name": "a", "parts": [{}, {"onlyOne": 13}]}, Problem("parts[1].onlyOne", "takes no 13")),
    ],
    ids=str,
)
def test_a_problem_names_field_and_value(document: dict[str, object], problem: Problem) -> None:
    with pytest.raises(ValidationError) as refusal:
        Whole.model_validate(document)
    assert problems_of(refusal.value) == (problem,)


@pytest.mark.parametrize(
    ("count", "message"),
    [(0, "must be at least 1, not 0"), (4, "must be at most 3, not 4"), (1.5, "must be a whole number, not 1.5")],
)
def test_bounds_are_part_of_the_message(count: float, message: str) -> None:
    class Counted(Model):
        count: Annotated[int, *whole(1, 3)]

    with pytest.raises(ValidationError) as refusal:
        Counted.model_validate({"count": count})
    assert problems_of(refusal.value) == (Problem("count", message),)
