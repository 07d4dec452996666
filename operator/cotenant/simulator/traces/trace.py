"""A trace: jobs with the time at which they came and the time that they really ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

WHOLE = 1000


class TraceError(ValueError):
    """The trace cannot be read; the message names the line and what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    name: str
    submitted_at: float
    """Seconds on any clock; only differences matter, and dates for a window."""
    duration_s: float
    """How long it really ran, on its GPUs, without waiting."""
    gpus: int
    queue: str = "trace"
    user: str = ""
    declared_s: int | None = None
    """How long it was said to run. None: nobody said."""
    priority: int = 0
    gpu_milli: int = WHOLE
    """Of each of its GPUs; less than all of it only for one GPU."""
    gpu_classes: tuple[str, ...] = ()
    """Empty: any."""
    cpu_milli: int = 0
    """In all."""
    memory_mib: int = 0
    """In all."""


@dataclass(slots=True)
class LeftOut:
    """Counts what of a file is not used, by reason."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, reason: str) -> None:
        self.counts[reason] += 1

    def sentences(self) -> tuple[str, ...]:
        return tuple(f"{count:,} × not used: {reason}" for reason, count in sorted(self.counts.items()))


@dataclass(frozen=True, slots=True)
class Trace:
    jobs: tuple[TraceJob, ...]
    """By time of submission, then in the order of the file."""
    notes: tuple[str, ...] = ()
    """What of the file is not used, or is taken for something else, in sentences."""

    @classmethod
    def of(cls, jobs: Iterable[TraceJob], notes: Iterable[str] = ()) -> Trace:
        ordered = tuple(sorted(jobs, key=lambda job: job.submitted_at))
        if not ordered:
            raise TraceError(" ".join(["no job of the trace can be played;", *notes]))
        return cls(ordered, tuple(notes))

    def window(self, start: float | None, end: float | None) -> Trace:
        """Jobs that came in [start, end)."""
        inside = [
            job
            for job in self.jobs
            if (start is None or job.submitted_at >= start) and (end is None or job.submitted_at < end)
        ]
        outside = len(self.jobs) - len(inside)
        return Trace.of(
            inside, [*self.notes, *([f"{outside:,} × not used: came outside the window"] if outside else [])]
        )

    def declaring(self, percent: int | None) -> Trace:
        """Trace whose jobs declare so many percent of their true run time; None: they declare none."""
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
    """Unix seconds of `1510000000`, `86400.5`, `2017-11-06` or `2017-11-06 07:01:55`; what names no zone is UTC.

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
