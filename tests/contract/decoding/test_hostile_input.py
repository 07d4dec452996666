"""Thousands of hostile inputs for every decoder behind the door, in every run. `bench/fuzz.py` runs a million."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.hostile import documents, doors
from tests.support.hostile.doors import DOORS, Door, assert_plain
from tests.support.hostile.mutations import Mutator

INPUTS = 1500
"""Of each door by the mutator, with seeds of their own."""
fuzz = settings(max_examples=100, deadline=None)

texts = st.text(st.characters(), max_size=40)
"""Of all characters, halves of surrogate pairs included."""
numbers = st.integers() | st.integers(10**20, 10**40) | st.floats()
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


def with_any(document: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The document with any value in any of its fields, or without it."""
    return st.fixed_dictionaries({}, optional={name: values | st.just(value) for name, value in document.items()})


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_no_input_gets_through_a_door_but_as_plain_text_and_finite_numbers(door: Door) -> None:
    for number in range(INPUTS):
        door.check(door.make(Mutator(Random(f"{door.name} {number}"))))


@fuzz
@given(with_any(documents.PROGRESS), st.booleans())
def test_any_value_in_any_field_of_progress(document: dict[str, Any], escaped: bool) -> None:
    doors.check_progress(json.dumps(document, ensure_ascii=escaped).encode("utf-8", errors="surrogatepass"))


@fuzz
@given(with_any(documents.TERMINATION))
def test_any_value_in_any_field_of_a_termination(document: dict[str, Any]) -> None:
    doors.check_termination(json.dumps(document))


@fuzz
@given(with_any(json.loads(documents.CONTRACT.to_json())))
def test_any_value_in_any_field_of_a_contract(document: dict[str, Any]) -> None:
    doors.check_contract({"COTENANT_CONTRACT": json.dumps(document | {"version": 1})})


@fuzz
@given(st.lists(st.sampled_from(documents.MESSAGES).flatmap(with_any), max_size=4))
def test_any_value_in_any_field_of_a_rank_s_message(messages: list[dict[str, Any]]) -> None:
    doors.check_messages([json.dumps(message).encode() + b"\n" for message in messages])


@fuzz
@given(st.sampled_from(documents.ERROR_FILES).flatmap(with_any))
def test_any_value_in_any_field_of_an_error_file(document: dict[str, Any]) -> None:
    doors.check_error_file(json.dumps(document).encode())


@fuzz
@given(st.dictionaries(texts, texts), st.dictionaries(texts, texts))
def test_any_labels_and_annotations_of_a_pod(labels: dict[str, str], annotations: dict[str, str]) -> None:
    pod = documents.pod_with(contract=documents.CONTRACT.to_environment(), message="")
    doors.check_pod(pod | {"metadata": pod["metadata"] | {"labels": labels, "annotations": annotations}})


@fuzz
@given(st.dictionaries(texts | st.binary() | st.integers(), values | st.binary()))
def test_any_results_of_a_program(results: dict[Any, Any]) -> None:
    doors.check_values(results)


@fuzz
@given(st.binary(max_size=300), st.sampled_from([b"", documents.HTTP[:60], b"HTTP/1.1 200 OK\r\n\r\n"]))
def test_any_bytes_over_http(data: bytes, before: bytes) -> None:
    doors.check_http(before + data)


@fuzz
@given(st.text(st.characters(), max_size=300))
def test_any_text_as_text_and_as_json(text: str) -> None:
    doors.check_text(text)
    doors.check_json(text)
    doors.check_json(json.dumps(text))


@pytest.mark.parametrize(
    "value", ["\x1b", "\ud800", 2**63, float("nan"), ["\u202e"], {"\x00": 1}, b"x", "x" * 6000], ids=ascii
)
def test_what_must_not_get_through_is_noticed(value: Any) -> None:
    with pytest.raises(AssertionError):
        assert_plain(value)
