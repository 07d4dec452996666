"""Weeks that look like published traces: their load, their sizes, what they declare."""

from __future__ import annotations

import pytest

from bench.parts.weeks import HOURS, WEEKS, week
from bench.starvation import gpus_of


@pytest.mark.parametrize("name", WEEKS)
def test_a_week_has_the_load_and_the_sizes_that_it_is_drawn_for(name: str) -> None:
    drawn = week(name, load=0.9, nodes=16, seed=1)
    capacity_s = 16 * 8 * HOURS * 3_600
    held_s = sum(gpus_of(one) * one.train_s for one in drawn.arrivals)
    largest = max(gpus_of(one) * one.train_s for one in drawn.arrivals)

    assert 0.9 * capacity_s <= held_s <= 0.9 * capacity_s + largest
    assert {gpus_of(one) for one in drawn.arrivals} <= {size for size in WEEKS[name] if size <= 32}
    assert drawn == week(name, load=0.9, nodes=16, seed=1)


def test_a_week_declares_a_bound_only_if_asked() -> None:
    bounds = {
        declares: {
            one.job.max_runtime_s is None
            for one in week("philly", load=0.1, nodes=4, seed=1, declares=declares).arrivals
        }
        for declares in ("nothing", "maxRuntime")
    }

    assert bounds == {"nothing": {True}, "maxRuntime": {False}}
