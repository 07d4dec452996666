"""The galloping search against trying every number of steps."""

from __future__ import annotations

import pytest

from cotenant.core.cycle.gallop import first_true, gallop


class Steps:
    """`least` of `total` steps are enough; notes which numbers were tried."""

    def __init__(self, total: int, least: int) -> None:
        self.total, self.least = total, least
        self.tried: list[int] = []

    def reach(self, count: int) -> int:
        return min(count, self.total)

    def enough(self, count: int) -> bool:
        self.tried.append(count)
        return count >= self.least


@pytest.mark.parametrize("total", [*range(20), 100])
def test_galloping_finds_the_smallest_sufficient_number(total: int) -> None:
    for least in range(1, total + 1):
        steps = Steps(total, least)
        assert gallop(steps.reach, steps.enough) == least


@pytest.mark.parametrize(("total", "tried"), [(0, []), (1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (7, [1, 2, 4, 7])])
def test_if_all_steps_do_not_suffice_there_is_no_answer(total: int, tried: list[int]) -> None:
    steps = Steps(total, total + 1)

    assert gallop(steps.reach, steps.enough) is None
    assert steps.tried == tried


def test_few_trials_are_made_if_few_steps_suffice() -> None:
    steps = Steps(1_000_000, 3)

    assert gallop(steps.reach, steps.enough) == 3
    assert steps.tried == [1, 2, 4, 3]


def test_bisection_finds_the_first_number_for_which_the_condition_holds() -> None:
    for first in range(1, 33):
        assert first_true(0, 32, Steps(32, first).enough) == first
