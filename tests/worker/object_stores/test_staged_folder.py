"""No name of an object leads out of its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cotenant_worker.object_stores.staged_folder import checked_name
from cotenant_worker.object_stores.staging_errors import StagingError

PARTS = st.sampled_from(["..", ".", "", "a", "b c", "é", "...", "\\", "\x00", "\n", ".cotenant-lock", "x" * 300])


@example("//")
@given(st.lists(PARTS, min_size=1, max_size=5).map("/".join))
def test_a_name_is_refused_or_lies_below_the_folder(name: str) -> None:
    folder = Path("/data/images")
    try:
        assert checked_name(name) == name
    except StagingError:
        assert name not in {"a", "b c", "é", "..."}
    else:
        assert Path(os.path.normpath(folder / name)).is_relative_to(folder)
        assert os.path.normpath(folder / name) == f"{folder}/{name}"


@pytest.mark.parametrize("name", ["a", "a/b", "..a/b..", "a b/ü.txt", ".hidden", "a/.cotenant-x"])
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert checked_name(name) == name
