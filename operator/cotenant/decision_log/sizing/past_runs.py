"""What past runs of a job measured: how long all of its work takes, by class and number of workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median_low
from typing import Final

from cotenant.decision_log.runs import RunRecord
from cotenant.names import ENOUGH_SAMPLES

LEAST_S: Final = 60
LEAST_STEPS: Final = 10
"""A run that did not succeed counts only with this many steps."""


@dataclass(frozen=True, slots=True, order=True)
class RunShape:
    gpu_class: str
    workers: int
    gpu: str
    """GPUs of each worker, as in its document: `2`, `0.4`, `16Gi`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Runs of one shape."""

    shape: RunShape
    seconds: int
    """Median time of all of the job's work, without waiting."""
    runs: int
    busy_percent: int | None = None
    """Time in which a kernel ran; None if unknown, or if GPUs were shared with other jobs."""


def whole_seconds(run: RunRecord) -> int | None:
    """Seconds that all of its work takes: of a run that succeeded at once, or estimated from its steps.

    None if that is unknown: too short, started again, or without a class.
    """
    if not run.gpu_class or run.workers < 1 or run.run_seconds < LEAST_S or run.attempts != 1 or run.restarts:
        return None
    if run.outcome == "Succeeded":
        return run.run_seconds
    if run.steps >= LEAST_STEPS and run.steps_of >= run.steps:
        return run.run_seconds * run.steps_of // run.steps
    return None


def measurements(runs: Iterable[RunRecord]) -> tuple[tuple[Measurement, ...], int]:
    """One for each shape, the shape of most runs first; and the number of runs that show nothing."""
    of_shape: dict[RunShape, list[tuple[int, RunRecord]]] = defaultdict(list)
    left_out = 0
    for run in runs:
        seconds = whole_seconds(run)
        if seconds is None:
            left_out += 1
        else:
            of_shape[RunShape(run.gpu_class, run.workers, run.gpu)].append((seconds, run))
    found = [_measured(shape, known) for shape, known in of_shape.items()]
    return tuple(sorted(found, key=lambda one: (-one.runs, one.shape))), left_out


def _measured(shape: RunShape, known: list[tuple[int, RunRecord]]) -> Measurement:
    looked_at = [run.use for _, run in known if run.use.busy_samples >= ENOUGH_SAMPLES and not run.use.shared]
    busy = [use.busy_percent for use in looked_at if use.busy_percent is not None]
    return Measurement(
        shape=shape,
        seconds=median_low(seconds for seconds, _ in known),
        runs=len(known),
        busy_percent=median_low(busy) if busy else None,
    )


def memory_peak_mib(runs: Iterable[RunRecord]) -> int:
    """The most that any run had on one GPU; 0 if unknown."""
    return max((run.use.memory_peak_mib or run.memory_peak_mib for run in runs), default=0)
