"""What jobs asked for when they arrived, as shapes with weights: placement learns from it which workload is to come.

A job that is here counts in full. A job that left counts less and less, because jobs like it may come again. An edit
does not count. So it moves no score and no other job's place, and a job that is edited as it was advised starts
(docs/design/0006-scheduling-core.md#proofs).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cotenant.core.model.objects import Job, JobKey
from cotenant.core.placement.shapes import Demand, Shape, heaviest, worker_shape

_STEPS = 128
"""Weights decay in so many steps per half-life. Between two steps they do not change, so that a decision that was made
with them can be reused."""
_PAST = 256
"""Different shapes that are remembered of jobs that left; the lightest are forgotten first."""


class DemandHistory:
    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._here: dict[JobKey, tuple[Shape, int]] = {}
        """Job → its shape and its workers when it arrived."""
        self._present: Counter[Shape] = Counter()
        """Workers of each shape in `_here`."""
        self._past: dict[Shape, float] = {}
        self._past_at = 0.0
        """The moment for which the weights of `_past` hold. A weight that is added later is carried back to it."""
        self._at: float | None = None
        self._demands: tuple[Demand, ...] | None = ()
        """None after a change."""

    def advance(self, now: float) -> None:
        """Decay the weights of jobs that left, up to `now`."""
        if self._at is None or not self._past:
            self._past_at = now
        self._at = now
        passed = now - self._past_at
        if passed < self._half_life_s / _STEPS:
            return
        kept = self._kept(passed)
        self._past = {shape: weight * kept for shape, weight in self._past.items() if weight * kept >= 0.01}
        self._past_at, self._demands = now, None

    def restore(self, ended: Iterable[tuple[Job, float]], now: float) -> None:
        """Continue as a new leader. `ended`: jobs that are over, and since when."""
        self._past, self._past_at, self._at, self._demands = {}, now, now, None
        for job, at in sorted(ended, key=lambda one: (one[1], one[0].key)):
            self._remember(worker_shape(job), job.workers_min * self._kept(max(0.0, now - at)))

    def job_arrived(self, job: Job) -> None:
        """The job is here from now on. One of the same name is gone."""
        shape, workers = worker_shape(job), job.workers_min
        if job.key in self._here:
            self.job_left(job.key)
        self._here[job.key] = shape, workers
        self._present[shape] += workers
        self._demands = None

    def job_left(self, key: JobKey) -> None:
        shape, workers = self._here.pop(key)
        self._present[shape] -= workers
        if not self._present[shape]:
            del self._present[shape]
        self._remember(shape, workers)

    def demands(self) -> tuple[Demand, ...]:
        if self._demands is None:
            weights = {shape: float(workers) for shape, workers in self._present.items()}
            for shape, weight in self._past.items():
                weights[shape] = weights.get(shape, 0.0) + weight
            self._demands = heaviest(weights)
        return self._demands

    def _remember(self, shape: Shape, weight: float) -> None:
        since = max(0.0, (self._at or 0.0) - self._past_at)
        self._past[shape] = self._past.get(shape, 0.0) + weight / self._kept(since)
        self._demands = None
        if len(self._past) > _PAST:
            del self._past[min(self._past, key=lambda one: (self._past[one], one))]

    def _kept(self, passed: float) -> float:
        """The part of a weight that is left after so many seconds."""
        kept: float = 2.0 ** (-passed / self._half_life_s)
        return kept
