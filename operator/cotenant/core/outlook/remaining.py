"""How much longer a job runs: one draw out of a distribution, from the best that is known of it.

Its own live progress comes first. Without it, run times are taken as log-normal, and two sources are combined: the run
times of earlier jobs like it (`runtimes`), and what it declares, times how earlier declarations of the same people came
out. Each source counts by its precision, one over the variance of its logarithm. So declarations that were always kept
decide alone, and guesses hardly count. Example: jobs like it ran 1,000 s, give or take a factor of 1.5; it declares
4,000 s, and declarations were right within a factor of 3 → 1,180 s, within a factor of 1.46.

Similar jobs are looked at from the widest group to the narrowest. What a wider group says counts like one run of the
narrower group for the mean, and like two for the spread. So the first run of a template already tells much about the
next one, and the spread of a few runs that happened to be equal is not believed.

The time that the job has run already is over: the draw is out of the rest of the distribution. A job is taken at its
word if nobody before it has declared a run time. `maxRuntime` bounds every draw. If nothing is known of a job, its end
is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, log, sqrt
from statistics import NormalDist, fmean, variance
from typing import Final

from cotenant.core.model.objects import Job, JobKey
from cotenant.core.runtimes.learned import ENOUGH, NOTHING_LEARNED, PER_MILLE, LearnedRuntimes, RunSeconds
from cotenant.core.runtimes.templates import declarers_of, groups_of

_PROGRESS_SPREAD: Final = 0.1
"""Standard deviation of the logarithm of the remaining time, if the job itself says how far it is."""
_LEAST_SPREAD_OF_RUNS: Final = 0.05
"""The same of run times of similar jobs that were all equal: the next job is similar to them and not equal."""
_LEAST_SPREAD_OF_WORDS: Final = 0.001
"""The same of declarations that were always kept to the second."""
_MEANS: Final = 1
"""What a wider group says of the mean counts like so many runs of the narrower one."""
_SPREADS: Final = 2
"""The same of the spread."""
_BEYOND: Final = 0.999
"""A job that has run longer than this part of the distribution is beyond everything that is known of it."""
_OVERRUN: Final = 0.25
"""Such a job is assumed to need this part of the time that it has run already, in the median."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class RemainingTimes:
    """Read-only; what is known at one moment."""

    learned: LearnedRuntimes = NOTHING_LEARNED
    ends: Mapping[JobKey, float] = field(default_factory=dict)
    """Job → its end by its live progress: steps left, at the rate of the last ones; Unix seconds."""

    def draw(self, job: Job, ran_s: float, now: float, chance: float) -> float | None:
        """Seconds that it runs on, at least one; `chance` between 0 and 1 chooses out of the distribution."""
        drawn = self._draw(job, ran_s, now, min(max(chance, 0.001), 0.999))
        if job.max_runtime_s is not None:
            left = max(1.0, job.max_runtime_s - job.ran_s - ran_s)
            return left if drawn is None else min(drawn, left)
        return drawn

    def _draw(self, job: Job, ran_s: float, now: float, chance: float) -> float | None:
        end = self.ends.get(job.key)
        if end is not None and ran_s > 0:
            return max(1.0, (end - now) * exp(_PROGRESS_SPREAD * _NORMAL.inv_cdf(chance)))
        done, declared_s = job.ran_s + ran_s, job.expected_runtime_s
        sources = [self._known_of(groups_of(job), _LEAST_SPREAD_OF_RUNS)]
        if declared_s:
            honesty = self._known_of(declarers_of(job), _LEAST_SPREAD_OF_WORDS)
            if honesty is None:
                return max(1.0, declared_s - done) if declared_s > done else _overrun(done, chance)
            sources.append(honesty + log(declared_s / PER_MILLE))
        known = [one for one in sources if one is not None]
        if not known:
            return None
        precision = sum(1 / one.variance for one in known)
        log_runtime = NormalDist(sum(one.mean / one.variance for one in known) / precision, 1 / sqrt(precision))
        return _left(log_runtime, done, chance)

    def _known_of(self, groups: Sequence[str], least_spread: float) -> NormalDist | None:
        """Distribution of the logarithm of what the groups say, of which the narrowest is the first.

        None if the widest has fewer than `ENOUGH` values.
        """
        known = tuple(self.learned.groups.get(group, ()) for group in reversed(groups))
        return _log_normal(known, least_spread) if len(known[0]) >= ENOUGH else None


@lru_cache(maxsize=4_096)
def _log_normal(groups: tuple[RunSeconds, ...], least_spread: float) -> NormalDist:
    """Mean and spread of the logarithms of the next value of the last group; the first is the widest."""
    logs = [log(max(1, value)) for value in groups[0]]
    mean, spread = fmean(logs), variance(logs)
    for values in filter(None, groups[1:]):
        logs = [log(max(1, value)) for value in values]
        mean = (sum(logs) + _MEANS * mean) / (len(logs) + _MEANS)
        squares = sum((one - mean) ** 2 for one in logs)
        spread = (squares + _SPREADS * spread) / (len(logs) + _SPREADS - 1)
    return NormalDist(mean, max(least_spread, sqrt(spread)))


def _left(log_runtime: NormalDist, done: float, chance: float) -> float:
    """Seconds left after `done` seconds, of a job whose run time has this distribution."""
    over = log_runtime.cdf(log(done)) if done > 0 else 0.0
    if over > _BEYOND:
        return _overrun(done, chance)
    return max(1.0, exp(log_runtime.inv_cdf(over + (1 - over) * chance)) - done)


def _overrun(done: float, chance: float) -> float:
    return max(1.0, done * 2 * _OVERRUN * chance)
