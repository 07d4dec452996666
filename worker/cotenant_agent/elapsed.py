"""Time between two moments in Unix seconds, on a node whose clock may be set meanwhile. Pure."""

from __future__ import annotations


def elapsed_s(since: float, now: float) -> float:
    """Seconds from `since` to `now`; infinite if the clock was set back in between.

    What waits for a time to pass then happens early, once, and not late by as much as the clock was set back.
    """
    return now - since if now >= since else float("inf")
