"""Advice, measured against a catalogue of changes that knows nothing of how advice is searched."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "parts" / "single_changes.py"


@pytest.mark.timeout(300)  # some hundred decisions
def test_all_jobs_that_some_single_change_would_start_are_told_one_and_all_that_is_told_starts_them() -> None:
    tally = runpy.run_path(str(BENCH))["measure"](first=0, worlds=1)

    assert tally.exists > 0
    assert tally.offered == tally.exists, tally.stories
    assert tally.starts == tally.given
