"""Corrections in words: YAML on one line that reads as the value, and nothing too long to read."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from cotenant.api.advice.corrections import LONGEST, flow, written
from cotenant.api.conversion.yaml_text import read_documents

VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**53), 2**53) | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (2, "2"),
        ("team-a", "team-a"),
        ("2", '"2"'),
        ("16Gi", '"16Gi"'),
        ("no", '"no"'),
        ("train:main", "train:main"),
        (["python", "train.py"], '["python", "train.py"]'),
        ([{"name": "LR", "value": "0.1"}], '[{name: LR, value: "0.1"}]'),
        ("a\x1b[31m", '"a\\u001b[31m"'),
    ],
)
def test_a_value_is_written_as_people_write_it(value: Any, want: str) -> None:
    assert flow(value) == want


@given(VALUES)
def test_what_is_written_reads_as_the_same_here_and_in_any_other_yaml(value: Any) -> None:
    line = f"a: {flow(value)}"
    assert line.isprintable()
    assert [document.body for document in read_documents(line)] == [{"a": value}] == [yaml.safe_load(line)]


def test_corrections_of_several_fields_are_one_sentence() -> None:
    assert written({"spec.workers": 4, "spec.minWorkers": 1}) == "write `spec.workers: 4` and `spec.minWorkers: 1`"
    assert written({}) == ""


def test_a_correction_that_is_too_long_to_read_is_none() -> None:
    assert written({"spec.runtime.args": ["x" * LONGEST]}) == ""
