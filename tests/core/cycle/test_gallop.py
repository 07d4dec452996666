"""The galloping search against trying every number of steps."""

from __future__ import annotations

import pytest

from cotenant.core.cycle.gallop import first_true, gallop


@pytest.mark.parametrize("steps", [*range(20), 100])
def test_the_smallest_number_of_steps_that_is_enough_is_found(steps: int) -> None:
    for least in range(1, steps + 1):
        assert gallop(lambda count: min(count, steps), lambda count, least=least: count >= least) == least


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 7])
def test_where_all_steps_are_not_enough_there_is_no_answer(steps: int) -> None:
    tried: list[int] = []
    assert gallop(lambda count: min(count, steps), lambda count: tried.append(count) is not None) is None
    assert tried == [count for count in (1, 2, 4, 7) if count < steps or count == steps] or tried[-1:] == [steps]


def test_few_trials_are_made_where_few_steps_are_enough() -> None:
    tried: list[int] = []

    def enough(count: int) -> bool:
        tried.append(count)
        return count >= 3

    assert gallop(lambda count: min(count, 1_000_000), enough) == 3
    assert tried == [1, 2, 4, 3]


def test_bisection_finds_the_first_number_at_which_it_holds() -> None:
    for first in range(1, 33):
        assert first_true(0, 32, lambda number, first=first: number >= first) == first
