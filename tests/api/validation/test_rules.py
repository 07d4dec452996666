"""The base of every model: unknown fields, null, rules of a class, and the lenient base of a status."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from cotenant.api.validation.rules import Model, Rule, StatusModel, TransitionRule, given, validation


class Pair(Model):
    first_one: int = 0
    second: int = 0

    RULES = (
        Rule("firstOne", "self.firstOne < 10", "is not below 10", lambda it: it.first_one < 10),
        Rule("", "self.firstOne <= self.second", "first is more than second", lambda it: it.first_one <= it.second),
    )


class Lenient(StatusModel):
    first_one: int = 0


def test_null_is_the_same_as_absent() -> None:
    assert Pair.model_validate({"firstOne": None, "second": 1}) == Pair.model_validate({"second": 1})


def test_null_of_an_unknown_field_is_refused_like_any_unknown_field() -> None:
    with pytest.raises(ValidationError):
        Pair.model_validate({"third": None})


def test_every_rule_that_does_not_hold_is_in_one_error() -> None:
    with pytest.raises(ValidationError) as refusal:
        Pair.model_validate({"firstOne": 10})
    (error,) = refusal.value.errors()
    assert error["ctx"]["broken"] == [("firstOne", "is not below 10"), ("", "first is more than second")]


def test_a_status_ignores_what_a_newer_writer_added_and_takes_both_spellings() -> None:
    assert Lenient.model_validate({"firstOne": 2, "newer": 1}).first_one == 2
    assert Lenient(first_one=2).to_document() == {"firstOne": 2}


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        (Pair.RULES[0], {"rule": "self.firstOne < 10", "message": "is not below 10", "fieldPath": ".firstOne"}),
        (Pair.RULES[1], {"rule": "self.firstOne <= self.second", "message": "first is more than second"}),
        (TransitionRule("spec.a", "x", "m"), {"rule": "x", "message": "m", "fieldPath": ".spec.a"}),
        (TransitionRule("", "x", "m", "'m' + n"), {"rule": "x", "message": "m", "messageExpression": "'m' + n"}),
    ],
    ids=["of a field", "of the object", "of an edit", "of an edit in its own words"],
)
def test_a_rule_becomes_an_entry_of_the_crd(rule: Rule | TransitionRule, want: dict[str, str]) -> None:
    assert validation(rule) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ({}, "an object"),
        ([], "a list"),
        (None, "null"),
        (True, "true"),
        (False, "false"),
        ("a", '"a"'),
        (3, "3"),
        ("x" * 58, f'"{"x" * 58}"'),
        ("x" * 59, f'"{"x" * 56}…'),
    ],
    ids=repr,
)
def test_a_value_is_short_enough_for_a_sentence(value: Any, want: str) -> None:
    assert given(value) == want
