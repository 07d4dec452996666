"""Metrics that are no longer a number, such as a loss that became NaN on one rank of eight. Pure.

The mean leaves them out, so a curve would look right while the weights are destroyed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_NAN: Final = "NaN"


@dataclass(slots=True)
class LostMetrics:
    _since: dict[str, dict[int, tuple[int, str]]] = field(default_factory=dict)
    """Metric → rank → the step since which it is lost there, and what it became."""
    _finite: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Metric → its last finite value on any rank, and the step of that value."""

    def record(self, rank: int, step: int, metrics: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        """(key, text) of each warning that changes. An empty text withdraws it."""
        for name, value in metrics.items():
            ranks = self._since.setdefault(name, {})
            known = dict(ranks)
            if math.isfinite(value):
                self._finite[name] = (value, step)
                ranks.pop(rank, None)
            else:
                ranks.setdefault(rank, (step, _NAN if math.isnan(value) else "no finite number"))
            if ranks != known:
                yield f"lost-{name}", self._text(name) if ranks else ""

    def now(self) -> dict[str, float]:
        """The metrics that are lost on some rank now, and what they became: NaN or infinity."""
        words = {name: {what for _, what in ranks.values()} for name, ranks in self._since.items() if ranks}
        return {name: math.nan if _NAN in found else math.inf for name, found in sorted(words.items())}

    def _text(self, name: str) -> str:
        ranks = self._since[name]
        since, first, what = min((step, rank, what) for rank, (step, what) in ranks.items())
        where = f"rank {first}" if len(ranks) == 1 else f"{len(ranks)} ranks, rank {first} first"
        last, at = self._finite.get(name, (math.nan, 0))
        before = f"; it was {last:g} at step {at}" if name in self._finite else ""
        return f"{name} is {what} since step {since} ({where}){before}"
