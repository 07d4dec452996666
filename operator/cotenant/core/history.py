"""What is remembered between cycles, decayed: how much queues borrowed, and which shapes of jobs came by.

Kept by `ClusterState`, given to `schedule` as data in the snapshot. With half-life h, after t seconds a value v and a
constant rate r have become  v · 2^(−t/h)  +  r · h/ln 2 · (1 − 2^(−t/h)).
Example: h = one day; 4 GPUs borrowed for a day weigh half as much one day later.

Entry penalty (Kueue's admission fair sharing): an admission that borrows counts at once for a minute of its use, so a
burst of short jobs cannot win again and again before its use is seen. An admission that fails gives the penalty back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from cotenant.core.fairness import borrowed
from cotenant.core.handover import PastBorrowing
from cotenant.core.model import Job
from cotenant.core.placement.shapes import Shape, worker_shape
from cotenant.core.usage import Usage

_PENALTY_S = 60
_SHAPES = 256
"""So many different shapes are remembered; the lightest are forgotten first."""


class History:
    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._borrowed: dict[str, float] = {}
        self._penalties: dict[str, tuple[tuple[str, int], ...]] = {}
        """Job → what its admission was charged, until it is gone or taken back."""
        self._shapes: dict[Shape, float] = {}
        self._at: float | None = None

    def advance(self, now: float, usage: Usage) -> None:
        """Time has passed with these holdings."""
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        if not passed:
            return
        kept, gained = self._decay(passed)
        before = self._borrowed
        self._borrowed = {}
        for number, queue in enumerate(usage.tree.queues):
            value = before.get(queue.name, 0.0) * kept + _borrowed(usage, number) * gained
            if value >= 1.0:
                self._borrowed[queue.name] = value
        self._shapes = {shape: weight * kept for shape, weight in self._shapes.items() if weight * kept >= 0.01}

    def take_over(self, borrowing: Iterable[PastBorrowing], ended: Iterable[tuple[Job, float]], now: float) -> None:
        """Go on from what another history had come to, carried forward to now."""
        self._borrowed, self._penalties, self._shapes, self._at = {}, {}, {}, now
        for past in borrowing:
            kept, gained = self._decay(max(0.0, now - past.at))
            self._borrowed[past.queue] = past.milli_seconds * kept + past.rate_milli * gained
        for job, at in sorted(ended, key=lambda one: (one[1], one[0].key)):
            self._remember(job, self._decay(max(0.0, now - at))[0])

    def _decay(self, passed: float) -> tuple[float, float]:
        """(what is kept of a value, what a rate of one has come to) after so many seconds."""
        kept = 2.0 ** (-passed / self._half_life_s)
        return kept, self._half_life_s / math.log(2) * (1.0 - kept)

    def admitted(self, job: Job, milli: int, usage: Usage) -> None:
        """An admission was assumed: the queues of its path that borrow are charged at once."""
        number = usage.tree.number.get(job.queue)
        steps = () if number is None else usage.tree.paths[number]
        charged = tuple((usage.tree.queues[step].name, milli * _PENALTY_S) for step in steps if _borrowed(usage, step))
        for name, amount in charged:
            self._borrowed[name] = self._borrowed.get(name, 0.0) + amount
        self._penalties[job.key] = charged

    def taken_back(self, key: str) -> None:
        """The admission did not happen."""
        for name, amount in self._penalties.pop(key, ()):
            self._borrowed[name] = max(0.0, self._borrowed.get(name, 0.0) - amount)

    def left(self, job: Job) -> None:
        """A job is gone; jobs like it may come again."""
        self._penalties.pop(job.key, None)
        self._remember(job, 1.0)

    def _remember(self, job: Job, weight: float) -> None:
        shape = worker_shape(job)
        self._shapes[shape] = self._shapes.get(shape, 0.0) + job.workers_min * weight
        if len(self._shapes) > _SHAPES:
            del self._shapes[min(self._shapes, key=lambda one: (self._shapes[one], one))]

    def usage(self) -> tuple[tuple[str, float], ...]:
        return tuple(sorted(self._borrowed.items()))

    def demand(self) -> tuple[tuple[Shape, float], ...]:
        return tuple(sorted(self._shapes.items()))


def _borrowed(usage: Usage, queue: int) -> int:
    above = borrowed(usage, queue)
    return above[None] if None in above else sum(above.values())
