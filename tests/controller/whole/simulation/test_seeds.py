"""A hundred small worlds with faults, each from its seed: at every step and at the end, all invariants hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.simulation.scenario import draw
from tests.support.simulation.world import World


@pytest.mark.parametrize("first", range(0, 100, 4))
def test_no_invariant_is_violated_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, first + 4):
        outcome = World(draw(seed)).run()
        assert not outcome.violation, f"seed {seed}\n{outcome.report()}"


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_nor_with_sweeps_and_sessions_beside_the_jobs(first: int) -> None:
    for seed in range(first, first + 4):
        scenario = draw(seed, sweeps_and_sessions=True)
        assert replace(scenario, composites=(), incidents=()) == replace(draw(seed), incidents=())
        outcome = World(scenario).run()
        assert not outcome.violation, f"seed {seed}\n{outcome.report()}"


def test_a_seed_tells_the_same_story_each_time() -> None:
    stories = [World(draw(7)).run().story.lines for _ in range(2)]
    assert stories[0] == stories[1]
    assert len(stories[0]) > 20
