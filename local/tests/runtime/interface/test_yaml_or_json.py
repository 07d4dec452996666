"""A file of either form, and the place of a mistake in it."""

from typing import Any

import pytest

from cotenant_local.runtime.interface import yaml_or_json


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"a": [1, 2]}', {"a": [1, 2]}),
        ("a:\n  - 1\n  - 2\n", {"a": [1, 2]}),
        ('{"a": 1} # only YAML has comments', {"a": 1}),
        ("", None),
        ("yes", True),
    ],
)
def test_either_form_is_read(text: str, read: Any) -> None:
    assert yaml_or_json.parse(text) == read


@pytest.mark.parametrize("text", ["a: [1,\n", "a: b: c", "!!python/object/apply:os.getpid []"])
def test_what_is_neither_is_refused_with_the_place(text: str) -> None:
    with pytest.raises(ValueError, match=r"line \d+, column \d+"):
        yaml_or_json.parse(text)
