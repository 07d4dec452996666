"""Searches for the smallest number of steps that is enough: doubling first, then bisection.

Cost: O(log n) trials where n is the answer, not the number of steps there are. KAI-Scheduler searches the largest
solvable gang in the same way.
"""

from __future__ import annotations

from collections.abc import Callable


def gallop(reach: Callable[[int], int], enough: Callable[[int], bool]) -> int | None:
    """Fewest steps that are enough, or None where all of them are not.

    `reach(n)`: the smaller of n and the steps there are. `enough` must stay true once it is true.
    """
    low, high = 0, reach(1)
    while high > low and not enough(high):
        low, high = high, reach(2 * high)
    return None if high == low else first_true(low, high, enough)


def first_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Smallest number in (low, high] from which on `holds`; it does not at `low` and does at `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
