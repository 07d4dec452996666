"""What a range becomes in a sweep."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.sdk.objects.requests import Range


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (Range(1, 9), {"integer": {"min": 1, "max": 9}}),
        (Range(1, 9, step=2), {"integer": {"min": 1, "max": 9, "step": 2}}),
        (Range(1, 64, log=True), {"integer": {"min": 1, "max": 64, "scale": "Log"}}),
        (Range(0, 0.5), {"number": {"min": 0.0, "max": 0.5}}),
        (Range(0.001, 1, log=True), {"number": {"min": 0.001, "max": 1.0, "scale": "Log"}}),
    ],
)
def test_two_whole_numbers_are_a_range_of_whole_numbers(given: Range, written: dict[str, Any]) -> None:
    assert given.document() == written
