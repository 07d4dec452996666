"""The nearest known name: other spellings first, then a letter or two of difference, else none."""

from __future__ import annotations

import pytest

from cotenant.api.advice.near_names import LONGEST, nearest

KNOWN = ("workers", "minWorkers", "maxRuntime", "classes", "priorityClassName", "memoryFraction")


@pytest.mark.parametrize(
    ("word", "want"),
    [
        ("Workers", "workers"),
        ("memory_fraction", "memoryFraction"),
        ("max-runtime", "maxRuntime"),
        ("class", "classes"),
        ("classe", "classes"),
        ("worker", "workers"),
        ("workerss", "workers"),
        ("priorityClass", "priorityClassName"),
        ("memoryFractoin", "memoryFraction"),
        ("colour", None),
        ("", None),
        ("é", None),
        ("x" * (LONGEST + 1), None),
    ],
)
def test_the_nearest_name(word: str, want: str | None) -> None:
    assert nearest(word, KNOWN) == want
