"""Finds ranks that are far slower than the rest, from measurements before step 0. Pure.

Each step waits for the slowest rank, so one slow rank makes every step slow.
"""

from __future__ import annotations

from collections.abc import Mapping

SLOW_FACTOR = 3.0
SLOW_MS = 20.0
"""A rank is suspect if it is slower by this much in both senses. Less is noise of a busy machine."""


def slow_ranks(own_ms: Mapping[int, float]) -> dict[int, tuple[float, float]]:
    """Suspect rank → milliseconds of its own work, and the usual ones (the lower median)."""
    found = sorted(own_ms.values())
    usual = found[(len(found) - 1) // 2] if found else 0.0
    return {
        rank: (own, usual)
        for rank, own in sorted(own_ms.items())
        if own > SLOW_FACTOR * usual and own - usual > SLOW_MS
    }
