"""The outcome of every job under one policy, in the terms in which policies are compared.

*JCT* is the time from submission to end. *Finish-time fairness* ρ (Mahajan et al., Themis, NSDI 2020) is the JCT
divided by the time that the job would have taken with an equal share: its duration times the mean load over its life if
that is above one (load: GPUs that all present jobs ask for, divided by all GPUs). Above 1 the job got less than an
equal share.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from cotenant.core.model.objects import WHOLE
from cotenant.core.queueing.service import asked_milli
from cotenant.simulator.engine import SimulationResult
from cotenant.simulator.job_run import Held
from cotenant.simulator.report import mean, percentile

HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedJob:
    name: str
    queue: str
    milli: int
    """GPUs that it asks for, in thousandths."""
    submitted_at: float
    duration_s: float
    first_start: float | None
    end: float | None
    evictions: int = 0
    lost_s: float = 0.0
    held: tuple[Held, ...] = ()

    @property
    def jct_s(self) -> float:
        return 0.0 if self.end is None else self.end - self.submitted_at


def outcomes_of(history: SimulationResult) -> tuple[ReplayedJob, ...]:
    """Outcomes, sorted by the jobs' keys."""
    return tuple(
        ReplayedJob(
            name=key,
            queue=run.arrival.job.queue,
            milli=asked_milli(run.arrival.job),
            submitted_at=run.arrival.at,
            duration_s=run.arrival.train_s,
            first_start=run.first_start,
            end=run.end,
            evictions=run.evictions,
            lost_s=run.lost_s,
            held=tuple(run.held),
        )
        for key, run in sorted(history.runs.items())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    policy: str
    jobs: int
    ended: int
    jct_mean_h: float
    jct_p50_h: float
    jct_p99_h: float
    wait_mean_h: float
    """Mean hours until the first start."""
    rho_mean: float
    rho_p99: float
    unfair_percent: float
    """Jobs with ρ above 1.05, in percent."""
    evictions: int
    evictions_per_job: float
    evictions_most: int
    """The most evictions of one job."""
    lost_gpu_h: float
    """GPU-hours of work that was repeated after evictions."""
    busy_percent: float
    """Busy part of all GPUs from the first submission to the last, in percent."""
    makespan_h: float


def summarise(policy: str, outcomes: Sequence[ReplayedJob], gpus: int) -> Summary:
    """The summary. `gpus`: GPUs of the whole cluster."""
    ended = [one for one in outcomes if one.end is not None]
    jcts = [one.jct_s / HOUR for one in ended]
    ratios = fairness(ended, gpus)
    first = min((one.submitted_at for one in outcomes), default=0.0)
    last = max((one.submitted_at for one in outcomes), default=0.0)
    held = sum(part.milli * overlap(part, first, last) for one in outcomes for part in one.held)
    evictions = sum(one.evictions for one in outcomes)
    waits = [(one.first_start - one.submitted_at) / HOUR for one in outcomes if one.first_start is not None]
    return Summary(
        policy=policy,
        jobs=len(outcomes),
        ended=len(ended),
        jct_mean_h=mean(jcts),
        jct_p50_h=percentile(jcts, 50),
        jct_p99_h=percentile(jcts, 99),
        wait_mean_h=mean(waits),
        rho_mean=mean(ratios),
        rho_p99=percentile(ratios, 99),
        unfair_percent=100.0 * sum(ratio > 1.05 for ratio in ratios) / max(1, len(ratios)),
        evictions=evictions,
        evictions_per_job=evictions / max(1, len(outcomes)),
        evictions_most=max((one.evictions for one in outcomes), default=0),
        lost_gpu_h=sum(one.lost_s * one.milli for one in outcomes) / WHOLE / HOUR,
        busy_percent=100.0 * held / max(1.0, gpus * WHOLE * (last - first)),
        makespan_h=(max((one.end or first for one in outcomes), default=first) - first) / HOUR,
    )


def overlap(part: Held, start: float, end: float) -> float:
    return max(0.0, min(part.end, end) - max(part.start, start))


def fairness(ended: Sequence[ReplayedJob], gpus: int) -> list[float]:
    """ρ of every job, in the given order."""
    load = Load((one.submitted_at, one.end or one.submitted_at, one.milli / WHOLE / gpus) for one in ended)
    return [
        one.jct_s / (one.duration_s * max(1.0, load.mean(one.submitted_at, one.end)))
        for one in ended
        if one.end is not None
    ]


class Load:
    """A sum of amounts over time. Each amount lasts from its start to its end."""

    def __init__(self, intervals: Iterable[tuple[float, float, float]]) -> None:
        steps: dict[float, float] = {}
        for start, end, amount in intervals:
            steps[start] = steps.get(start, 0.0) + amount
            steps[end] = steps.get(end, 0.0) - amount
        self._at = sorted(steps)
        self._amount = list(accumulate(steps[at] for at in self._at))
        areas = (
            amount * (after - before)
            for amount, before, after in zip(self._amount, self._at, self._at[1:], strict=False)
        )
        self._area = [0.0, *accumulate(areas)]

    def mean(self, start: float, end: float) -> float:
        return (self._area_until(end) - self._area_until(start)) / (end - start) if end > start else self.at(start)

    def at(self, moment: float) -> float:
        index = bisect_right(self._at, moment) - 1
        return self._amount[index] if index >= 0 else 0.0

    def _area_until(self, moment: float) -> float:
        index = bisect_right(self._at, moment) - 1
        return 0.0 if index < 0 else self._area[index] + self._amount[index] * (moment - self._at[index])
