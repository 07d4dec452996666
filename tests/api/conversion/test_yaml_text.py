"""YAML is read as kubectl and the API server read it."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.yaml_text import read_documents
from cotenant.api.validation.problems import DocumentError


def bodies(text: str) -> list[Any]:
    return [document.body for document in read_documents(text)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1e3", 1000),
        ("2.0", 2),
        ("0.5", 0.5),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("yes", True),
        ("off", False),
        ("0o17", 15),
        ("0x1F", 31),
    ],
)
def test_a_scalar_is_what_go_makes_of_it(text: str, want: Any) -> None:
    assert bodies(f"a: {text}") == [{"a": want}]


def test_keys_are_texts() -> None:
    assert bodies("{1: a, b: c}") == [{"1": "a", "b": "c"}]
    assert bodies("{true: a}") == [{"true": "a"}]


def test_documents_and_items_of_a_list_come_with_their_line() -> None:
    text = "a: 1\n---\n---\nkind: List\nitems: [{b: 2}, {c: 3}]\n"
    found = [(document.body, document.line) for document in read_documents(text)]
    assert [body for body, _ in found] == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert found[0][1] == 1
    assert found[1][1] > 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2", "appears twice"),
        ("a: .nan", "not a number that JSON has"),
        ("a: 1e999", "too large"),
        (f"a: 1{'0' * 5000}", "too large"),
        ("a: &a [*a]", "inside of what it stands for"),
        ("a: &a {b: [*a]}", "inside of what it stands for"),
        (f"a: {'[' * 3000}{']' * 3000}", "nested too deep"),
        ("a: [", ""),
    ],
)
def test_what_is_no_document_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(DocumentError) as refusal:
        bodies(text)
    assert words in str(refusal.value)
    assert "line" in str(refusal.value)
