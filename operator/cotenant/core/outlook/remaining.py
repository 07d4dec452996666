"""How much longer a job runs: one draw out of a distribution, from the best that is known of it.

In this order: its own live progress; its declared run time, times how earlier declarations of the same people turned
out; run times of earlier jobs like it (`runtimes`), of which only those count that lasted longer than it has run
already. Where declarations turned out more different from each other than the run times themselves, the run times come
first. `maxRuntime` bounds them all. Of a job of which nothing is known the end is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

from cotenant.core.model.objects import Job, JobKey
from cotenant.core.runtimes.learned import NOTHING_LEARNED, LearnedRuntimes, RunSeconds, quantile

_PROGRESS_SPREAD: Final = 0.1
"""Standard deviation of the logarithm of what remains, where the job itself says how far it is."""
_OVERRUN: Final = 0.25
"""A job beyond all that is known of it is taken to need this part of what it has run already, in the median."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class RemainingTimes:
    """Read-only; what is known at one moment."""

    learned: LearnedRuntimes = NOTHING_LEARNED
    ends: Mapping[JobKey, float] = field(default_factory=dict)
    """Job → its end by its live progress: steps left, at the rate of the last ones; Unix seconds."""

    def draw(self, job: Job, ran_s: float, now: float, chance: float) -> float | None:
        """Seconds that it runs on, at least one; `chance` between 0 and 1 chooses out of the distribution."""
        drawn = self._draw(job, ran_s, now, chance)
        if job.max_runtime_s is not None:
            left = max(1.0, job.max_runtime_s - job.ran_s - ran_s)
            return left if drawn is None else min(drawn, left)
        return drawn

    def _draw(self, job: Job, ran_s: float, now: float, chance: float) -> float | None:
        end = self.ends.get(job.key)
        if end is not None and ran_s > 0:
            spread: float = 2.718281828 ** (_PROGRESS_SPREAD * _NORMAL.inv_cdf(min(max(chance, 0.001), 0.999)))
            return max(1.0, (end - now) * spread)
        done = job.ran_s + ran_s
        runs = self.learned.runs_like(job, longer_than_s=int(done))
        if job.expected_runtime_s is not None and not (runs and self._is_guess(job)):
            declared = self._declared(job, job.expected_runtime_s, done, chance)
            if declared is not None:
                return declared
        if runs:
            return max(1.0, runs[int(chance * len(runs))] - done)
        if job.expected_runtime_s is not None:
            return max(1.0, done * 2 * _OVERRUN * chance)
        return None

    def _is_guess(self, job: Job) -> bool:
        """What was declared of jobs like this one says less of their run times than that they are alike."""
        ratios, runs = self.learned.honesty_of(job), self.learned.runs_like(job)
        return bool(ratios and runs) and _spread(ratios) > _spread(runs)

    def _declared(self, job: Job, declared_s: int, done: float, chance: float) -> float | None:
        """What is left of the declaration, as honest as those before it; None where it is over by all experience."""
        ratios = self.learned.honesty_of(job)
        ends = [declared_s * ratio / 1_000 for ratio in ratios] or [float(declared_s)]
        later = [end for end in ends if end > done]
        return max(1.0, later[int(chance * len(later))] - done) if later else None


def _spread(values: RunSeconds) -> float:
    """Upper quartile in parts of the lower one: the same whatever the unit."""
    return quantile(values, 75) / max(1, quantile(values, 25))
