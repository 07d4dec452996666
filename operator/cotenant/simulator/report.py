"""Summarises a simulation: how long jobs waited and took, how busy the GPUs were, which jobs were evicted or never ran
and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.core.model.objects import WHOLE
from cotenant.simulator.engine import SimulationResult
from cotenant.simulator.job_run import JobRun
from cotenant.simulator.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    jobs: int
    ended: int
    makespan_s: float
    wait_mean_s: float
    wait_p99_s: float
    turnaround_mean_s: float
    gpus_busy_percent: float
    evictions: int
    never: tuple[tuple[str, str], ...]
    """(job, reason and message) of the jobs that never started."""


def summarise(scenario: Scenario, history: SimulationResult) -> Report:
    runs = [history.runs[key] for key in sorted(history.runs)]
    started = [run for run in runs if run.first_start is not None]
    waits = [run.first_start - run.arrival.at for run in started if run.first_start is not None]
    turnarounds = [run.end - run.arrival.at for run in runs if run.end is not None]
    capacity = sum(WHOLE for node in scenario.nodes for _ in node.gpus) * max(1.0, history.end - history.start)
    return Report(
        jobs=len(runs),
        ended=len(turnarounds),
        makespan_s=history.end - history.start,
        wait_mean_s=mean(waits),
        wait_p99_s=percentile(waits, 99),
        turnaround_mean_s=mean(turnarounds),
        gpus_busy_percent=100 * sum(run.held_milli_s for run in runs) / max(1.0, capacity),
        evictions=sum(run.evictions for run in runs),
        never=tuple((run.arrival.job.key, why(run)) for run in runs if run.first_start is None),
    )


def why(run: JobRun) -> str:
    return f"{run.verdict.reason}: {run.verdict.message}" if run.verdict else "no verdict"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], percent: int) -> float:
    """Percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0.0


def as_text(report: Report) -> list[str]:
    text = [
        f"jobs            {report.jobs}, {report.ended} ended",
        f"makespan        {report.makespan_s:,.0f} s",
        f"wait            mean {report.wait_mean_s:,.0f} s, p99 {report.wait_p99_s:,.0f} s",
        f"turnaround      mean {report.turnaround_mean_s:,.0f} s",
        f"GPUs busy       {report.gpus_busy_percent:.1f} %",
        f"evictions       {report.evictions}",
    ]
    return text + [f"never started   {key} – {reason}" for key, reason in report.never]
