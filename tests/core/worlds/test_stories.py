"""Plans of random stories, compared with those that were reviewed last."""

from __future__ import annotations

import json

import pytest

from tests.core.worlds.stories import REVIEWED, SEEDS, digest


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_plans_equal_the_reviewed_ones(first: int) -> None:
    """A change of plans on purpose: compare stories before and after it (`python -m tests.core.worlds.stories SEED`),
    then take them as reviewed by `--write`."""
    reviewed = json.loads(REVIEWED.read_text())
    other = [seed for seed in range(first, first + 10) if digest(seed) != reviewed[seed]]
    assert other == [], "the plans of these stories differ from those that were reviewed"
