"""Estimates by an oracle that knows the distributions of run times but not the draws: the error that noise leaves.

The oracle knows the typical run time of each template of `workloads.synthetic`, its spread, and the distribution of
declarations. Its error comes from chance, from jobs that arrive later, and from what plays leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist

from bench.parts.workloads import NOISE, SPREAD, template_of, typical_s
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.outlook.estimates import Outlook
from cotenant.core.outlook.remaining import RemainingTimes
from cotenant.core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class KnownDistribution(RemainingTimes):
    typical_s: Sequence[float] = ()
    """Typical run time of each template, by its number."""

    def draw(self, job: Job, ran_s: float, now: float, chance: float) -> float:
        runtime = NormalDist(log(self.typical_s[template_of(job)]), SPREAD)
        if job.expected_runtime_s is not None:
            runtime = _given(runtime, log(job.expected_runtime_s))
        done = job.ran_s + ran_s
        over = runtime.cdf(log(done)) if done > 0 else 0.0
        part = over + (1 - over) * min(max(chance, 0.001), 0.999)
        return max(1.0, exp(runtime.inv_cdf(min(part, 1 - 1e-9))) - done)


def _given(runtime: NormalDist, declared: float) -> NormalDist:
    """The distribution for a job that declares this run time, by Bayes' theorem. Both are logarithms."""
    said = NormalDist(declared - NOISE.mean, NOISE.stdev)
    precision = 1 / runtime.variance + 1 / said.variance
    mean = (runtime.mean / runtime.variance + said.mean / said.variance) / precision
    return NormalDist(mean, 1 / sqrt(precision))


class Oracle(Outlook):
    """Estimates of a workload; `seed` is the seed that drew it."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._typical_s = typical_s(seed)

    def observe(self, snapshot: Snapshot, ends: Mapping[JobKey, float]) -> None:
        super().observe(snapshot, ends)
        self._remaining = KnownDistribution(typical_s=self._typical_s)
