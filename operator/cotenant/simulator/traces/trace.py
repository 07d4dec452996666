"""A trace: jobs with the time at which each arrived and the time for which it really ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from cotenant.core.model.objects import WHOLE


class TraceError(ValueError):
    """The trace cannot be read. The message names the line and what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    name: str
    submitted_at: float
    """Seconds on any clock. Only differences matter; windows by date need Unix seconds."""
    duration_s: float
    """Seconds for which it really ran on its GPUs, without waiting."""
    gpus: int
    queue: str = "trace"
    user: str = ""
    declared_s: int | None = None
    """The declared run time in seconds; None if none was declared."""
    priority: int = 0
    gpu_milli: int = WHOLE
    """Thousandths of each of its GPUs. Below 1,000 only for a job with one GPU."""
    gpu_classes: tuple[str, ...] = ()
    """Accepted GPU classes; empty for any."""
    cpu_milli: int = 0
    """Thousandths of a CPU, in total."""
    memory_mib: int = 0
    """Memory in MiB, in total."""


@dataclass(slots=True)
class LeftOut:
    """Counts the parts of a file that are not used, by reason."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, reason: str) -> None:
        self.counts[reason] += 1

    def sentences(self) -> tuple[str, ...]:
        return tuple(f"{count:,} × not used: {reason}" for reason, count in sorted(self.counts.items()))


@dataclass(frozen=True, slots=True)
class Trace:
    jobs: tuple[TraceJob, ...]
    """The jobs by time of submission, then in the order of the file."""
    notes: tuple[str, ...] = ()
    """What of the file is not used, and what is assumed, in sentences."""

    @classmethod
    def of(cls, jobs: Iterable[TraceJob], notes: Iterable[str] = ()) -> Trace:
        ordered = tuple(sorted(jobs, key=lambda job: job.submitted_at))
        if not ordered:
            raise TraceError(" ".join(["no job of the trace can be played;", *notes]))
        return cls(ordered, tuple(notes))

    def window(self, start: float | None, end: float | None) -> Trace:
        """Jobs that arrived in [start, end)."""
        inside = [
            job
            for job in self.jobs
            if (start is None or job.submitted_at >= start) and (end is None or job.submitted_at < end)
        ]
        outside = len(self.jobs) - len(inside)
        return Trace.of(
            inside, [*self.notes, *([f"{outside:,} × not used: arrived outside the window"] if outside else [])]
        )

    def declaring(self, percent: int | None) -> Trace:
        """The trace with declared run times of this percentage of the true ones; None: without declared run times."""
        return replace(
            self,
            jobs=tuple(
                replace(job, declared_s=None if percent is None else max(1, round(job.duration_s * percent / 100)))
                for job in self.jobs
            ),
        )

    def in_one_queue(self, name: str = "trace") -> Trace:
        return replace(self, jobs=tuple(replace(job, queue=name) for job in self.jobs))


def seconds_of(text: str) -> float:
    """Unix seconds of `1510000000`, `86400.5`, `2017-11-06` or `2017-11-06 07:01:55`. Without a zone a time is UTC.
    Raises ValueError.
    """
    text = text.strip()
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def first_of(row: Mapping[str, str], names: Iterable[str]) -> str:
    """Value of the first of these columns that has one."""
    return next((value.strip() for name in names if (value := row.get(name)) and value.strip()), "")
