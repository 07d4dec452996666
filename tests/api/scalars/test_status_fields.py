"""What is cut where a status is written, and that nothing is where it is read."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from cotenant.api.scalars.status_fields import at_most, at_most_by_admission, cut, cut_at, entries, lines_within


@pytest.mark.parametrize(
    ("text", "written"),
    [("", ""), ("four", "four"), ("fives", "fiv…"), ("é" * 9, "ééé…")],
)
def test_a_text_keeps_its_beginning(text: str, written: str) -> None:
    kind = TypeAdapter(Annotated[str, *cut_at(4)])
    assert (cut(text, 4), kind.dump_python(kind.validate_python(text))) == (written, written)
    assert kind.validate_python(text) == text
    assert kind.json_schema() == {"type": "string", "maxLength": 4}


@pytest.mark.parametrize(
    ("kind", "value", "written", "schema"),
    [
        (Annotated[tuple[int, ...], *at_most(2)], (1, 2, 3), [1, 2], {"maxItems": 2}),
        (Annotated[tuple[int, ...], *at_most(2, last=True)], (1, 2, 3), [2, 3], {"maxItems": 2}),
        (Annotated[tuple[int, ...], *at_most(2)], (1,), [1], {"maxItems": 2}),
        (Annotated[tuple[int, ...], at_most_by_admission(2)], (1, 2, 3), [1, 2, 3], {"maxItems": 2}),
        (Annotated[dict[str, int], *entries(1)], {"a": 1, "b": 2}, {"a": 1}, {"maxProperties": 1}),
        (Annotated[tuple[str, ...], *lines_within(2, 9)], ("a", "b", "c"), ["b", "c"], {"maxItems": 2}),
        (Annotated[tuple[str, ...], *lines_within(3, 4)], ("aa", "bb", "cc"), ["bb", "cc"], {"maxItems": 3}),
        (Annotated[tuple[str, ...], *lines_within(3, 4)], ("a", "too long"), [], {"maxItems": 3}),
    ],
    ids=["the first", "the last", "all there are", "nothing is left out", "entries", "lines", "characters", "one line"],
)
def test_what_is_kept_of_a_list_and_a_mapping(kind: Any, value: Any, written: Any, schema: dict[str, int]) -> None:
    adapter = TypeAdapter(kind)
    read = adapter.validate_python(value)
    assert read == value
    assert adapter.dump_python(read, mode="json") == written
    assert schema.items() <= adapter.json_schema().items()
