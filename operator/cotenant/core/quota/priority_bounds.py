"""Priorities that a queue allows its jobs: a tenant chooses among them, an administrator draws the bounds.

The narrowest bounds on the queue's path hold. If no queue on it sets one, a number must lie within `NUMBERS`, and a
PriorityClass (administrators make those) within `CLASSES`. A waiting job outside its bounds is refused. A running job
counts with the nearest priority that is allowed: its spec or the bounds may have been edited since it started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.core.model.objects import TenantQueue

NUMBERS = 1_000
"""Largest `spec.priority`, either way, unless a queue says otherwise."""
CLASSES = 1_000_000_000
"""Largest value of a PriorityClass that is not the system's, as Kubernetes has it."""


@dataclass(frozen=True, slots=True)
class PriorityBounds:
    least: int
    most: int
    least_of: str
    """Queue that drew the bound; empty: none did."""
    most_of: str

    @classmethod
    def of(cls, path: Sequence[TenantQueue], usual: int) -> PriorityBounds:
        """`path`: a queue and all above it. `usual`: `NUMBERS` or `CLASSES`."""
        least = max(
            ((one.min_priority, one.name) for one in path if one.min_priority is not None), default=(-usual, "")
        )
        most = min(((one.max_priority, one.name) for one in path if one.max_priority is not None), default=(usual, ""))
        return cls(least[0], most[0], least[1], most[1])

    def nearest(self, priority: int) -> int:
        return min(max(priority, self.least), max(self.least, self.most))
