"""Yardsticks beside the real policies: published orders on a pool of GPUs whose evictions cost nothing.

A pool has no nodes, queues or costs, so a yardstick shows the value of an order alone.

- *FIFO*: by arrival; small jobs overtake a large one that does not fit.

- *LAS*, least attained service in two classes as in Tiresias (Gu et al., NSDI 2019): jobs that had less than one
GPU-hour, then the others, each by arrival.

- *SRSF*, shortest remaining service first. It knows the true run times.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Final, TypeAlias

from cotenant.core.model.objects import WHOLE
from cotenant.simulator.job_run import Held
from cotenant.simulator.outcomes import ReplayedJob
from cotenant.simulator.traces.trace import TraceJob

LAS_GPU_S = 3_600.0


@dataclass(slots=True)
class _Run:
    number: int
    job: TraceJob
    served_s: float = 0.0
    since: float | None = None
    """When it started to run."""
    first_start: float | None = None
    end: float | None = None
    evictions: int = 0
    held: list[Held] = field(default_factory=list)

    @property
    def gpus(self) -> float:
        return self.job.gpus * self.job.gpu_milli / WHOLE

    def attained_s(self, now: float) -> float:
        return self.served_s + (now - self.since if self.since is not None else 0.0)


_Rank: TypeAlias = Callable[[_Run, float], tuple[float, ...]]


def _fifo(run: _Run, _: float) -> tuple[float, ...]:
    return (0.0 if run.since is not None else 1.0, run.number)


def _las(run: _Run, now: float) -> tuple[float, ...]:
    return (1.0 if run.attained_s(now) * run.gpus >= LAS_GPU_S - 1e-6 else 0.0, run.number)


def _srsf(run: _Run, now: float) -> tuple[float, ...]:
    return ((run.job.duration_s - run.attained_s(now)) * run.gpus, run.number)


YARDSTICKS: Final[Mapping[str, _Rank]] = MappingProxyType({"FIFO": _fifo, "LAS": _las, "SRSF": _srsf})


def play_on_pool(name: str, jobs: Sequence[TraceJob], gpus: int) -> tuple[ReplayedJob, ...]:
    """Outcomes of the jobs, in their order, on this many GPUs. A job that asks for more never runs."""
    rank = YARDSTICKS[name]
    runs = [_Run(number, job) for number, job in enumerate(jobs)]
    arrivals = [(run.job.submitted_at, run.number) for run in runs if run.gpus <= gpus]
    heapq.heapify(arrivals)
    active: dict[int, _Run] = {}
    now = 0.0
    while arrivals or active:
        now = min(arrivals[0][0] if arrivals else inf, _next_change(active.values(), rank is _las, now))
        while arrivals and arrivals[0][0] <= now:
            number = heapq.heappop(arrivals)[1]
            active[number] = runs[number]
        for run in [run for run in active.values() if run.since is not None]:
            if run.attained_s(now) >= run.job.duration_s - 1e-6:
                _stop(run, now)
                run.end = now
                del active[run.number]
        _share_out(sorted(active.values(), key=lambda run: rank(run, now)), gpus, now)
    return tuple(_outcome(run) for run in runs)


def _next_change(active: Iterable[_Run], has_classes: bool, now: float) -> float:
    """When the next running job ends or leaves its class."""
    found = inf
    for run in active:
        if run.since is None:
            continue
        left_s = run.job.duration_s - run.attained_s(now)
        if has_classes and run.attained_s(now) * run.gpus < LAS_GPU_S - 1e-6:
            left_s = min(left_s, LAS_GPU_S / run.gpus - run.attained_s(now))
        found = min(found, now + max(0.0, left_s))
    return found


def _share_out(ordered: Sequence[_Run], gpus: float, now: float) -> None:
    """Run the first jobs in this order that fit. A running job that is not among them is evicted."""
    free = gpus
    for run in ordered:
        if run.gpus <= free + 1e-9:
            free -= run.gpus
            if run.since is None:
                run.since = now
                run.first_start = now if run.first_start is None else run.first_start
        elif run.since is not None:
            _stop(run, now)
            run.evictions += 1


def _stop(run: _Run, now: float) -> None:
    if run.since is not None and now > run.since:
        run.held.append(Held(run.since, now, round(run.gpus * WHOLE)))
    run.served_s, run.since = run.attained_s(now), None


def _outcome(run: _Run) -> ReplayedJob:
    return ReplayedJob(
        name=f"{run.job.queue}/{run.job.name}",
        queue=run.job.queue,
        milli=round(run.gpus * WHOLE),
        submitted_at=run.job.submitted_at,
        duration_s=run.job.duration_s,
        first_start=run.first_start,
        end=run.end,
        evictions=run.evictions,
        held=tuple(run.held),
    )
