"""Gathers the reports of all ranks into one `Progress`, in rank 0's pod. No I/O, no clock of its own.

Metrics are averaged here over the ranks that report them, so a training loop only pays for one message to a socket.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cotenant.contract import Progress
from cotenant.contract.decoding.fields import INTEGER_MAX
from cotenant.contract.decoding.plain_text import plain_text
from cotenant.contract.decoding.reported_values import COUNT_MAX, Value, plain_numbers, plain_values
from cotenant_worker.progress.lost_metrics import LostMetrics
from cotenant_worker.progress.slow_ranks import slow_ranks
from cotenant_worker.progress.staged_bytes import StagedBytes
from cotenant_worker.supervision.messages import PodStaging
from cotenant_worker.supervision.rank_reports import (
    REPORTED,
    CheckpointSaved,
    CheckpointStarted,
    CollectiveBackend,
    MemoryPeak,
    PreflightTimes,
    ProgramActivity,
    ProgressWarning,
    RankReport,
    ResultsReport,
    StepReport,
    VisibleGpus,
)

WARNINGS_MAX = 64
WARNING_CHARS_MAX = 400
SHOWN_WARNINGS_MAX = 15


@dataclass(slots=True)
class RankView:
    """The latest reports of one rank."""

    step: int = 0
    of: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    results: dict[str, float | int | str] = field(default_factory=dict)
    own_steps: bool = False
    """True if the program reports its steps; otherwise the shim counts them at the optimizer."""


@dataclass(slots=True)
class ProgressBoard:
    state: str = "starting"
    collective: str = ""
    ranks: dict[int, RankView] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    grants: dict[int, int] = field(default_factory=dict)
    """Rank → the rank to which the placement gave its GPUs. They differ in a world that shrank."""
    observed: dict[int, list[str]] = field(default_factory=dict)
    memory_peak: dict[str, int] = field(default_factory=dict)
    saved_step: int | None = None
    saved_at: float | None = None
    updated_at: float = 0.0
    restarts: int = 0
    checks: dict[int, tuple[float, int, float]] = field(default_factory=dict)
    """Rank → before step 0: milliseconds of an all-reduce, its bytes, milliseconds of the rank's own work."""
    checked_on: str = ""
    """`cuda` or `cpu`."""
    slow: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Rank → its own milliseconds, and the usual ones."""
    busy: bool | None = None
    """True if an interactive program computes; None if no program has said."""
    active_at: float | None = None
    """When it was last used, seconds since 1970."""
    staging: StagedBytes = field(default_factory=StagedBytes)
    timings: dict[str, float] = field(default_factory=dict)
    """Event → seconds since the launcher started, for its first occurrence."""
    _lost: LostMetrics = field(default_factory=LostMetrics)
    _window: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=64))
    """(seconds on a clock that nobody sets, step) of rank 0's last reports."""

    def record(self, report: RankReport, now: float) -> None:
        """Store one report of a rank, which came at `now` in seconds since 1970."""
        rank = max(report.rank, 0)
        view = self.ranks.setdefault(rank, RankView())
        self.updated_at = now
        match report:
            case StepReport():
                self._record_step(view, report)
            case ResultsReport(_, values):
                view.results = self._keep(view.results, values)
            case CheckpointSaved(_, step):
                self.state = "training" if self.state == "saving" else self.state
                self.saved_step = max(_whole(step), self.saved_step or 0)
                self.saved_at = now
            case PreflightTimes(_, all_reduce_ms, all_reduce_bytes, own_ms, device):
                self.checks[rank] = (all_reduce_ms, all_reduce_bytes, own_ms)
                self.checked_on = device
                self._name_slow_ranks()
            case CheckpointStarted():
                self.state = "saving"
            case CollectiveBackend(_, name):
                self._uses(name)
            case VisibleGpus(_, uuids, grant):
                self.grants[rank] = rank if grant is None else grant
                self.observed[self.grants[rank]] = list(uuids)
            case MemoryPeak(_, peak_mib):
                self.memory_peak[str(rank)] = max(_whole(peak_mib), self.memory_peak.get(str(rank), 0))
            case ProgramActivity():
                self.busy, self.active_at = report.busy, report.active_at_unix_s
            case ProgressWarning(key, text):
                self.warn(key, text)

    def record_staging(self, event: PodStaging, now: float) -> None:
        """Show what a pod has fetched of its data. The job waits for all pods together."""
        self.staging.record(event, now)
        self.updated_at = now
        if self.state in ("starting", "rendezvous", "staging"):
            self.state = "staging" if self.staging.unfinished else "rendezvous"

    def _record_step(self, view: RankView, report: StepReport) -> None:
        if report.counted and view.own_steps:
            return
        if not report.counted and not view.own_steps:
            view.own_steps = True
            if report.rank == 0:
                self._window.clear()
        view.step = _whole(report.step)
        view.of = _whole(report.of) or view.of
        if report.metrics:
            numbers, notes = plain_numbers(report.metrics, "metrics")
            view.metrics = dict(list({**view.metrics, **numbers}.items())[:COUNT_MAX])
            self._note(notes)
            kept = {name: value for name, value in numbers.items() if name in view.metrics}
            for key, text in self._lost.record(max(report.rank, 0), view.step, kept):
                self.warn(key, text)
        if self.state in ("starting", "rendezvous", "running"):
            self.state = "training"
        if report.rank == 0 and report.at_monotonic_s is not None:
            if self._window and view.step < self._window[-1][1]:
                self._window.clear()
            self._window.append((report.at_monotonic_s, view.step))

    def _keep(self, known: Mapping[str, Value], values: Mapping[str, Value]) -> dict[str, Value]:
        kept, notes = plain_values({**known, **values}, "results")
        self._note(notes)
        return kept

    def _note(self, notes: Iterable[str]) -> None:
        for note in notes:
            self.warn(f"{REPORTED}{note}", note)

    def _uses(self, name: str) -> None:
        """Backend of the program's process group, whatever was chosen for it."""
        if self.collective == "nccl" and name == "gloo":
            self.warn("collective", "the program asks for gloo: all-reduce goes through the CPUs where NCCL would work")
        self.collective = name

    def _name_slow_ranks(self) -> None:
        """Warn of each slow rank with its GPUs, and withdraw the warnings of others."""
        if len(self.checks) < 2:
            return
        found = slow_ranks({rank: own for rank, (_, _, own) in self.checks.items()})
        self.slow = {rank: (round(own, 1), round(usual, 1)) for rank, (own, usual) in found.items()}
        for rank in sorted(self.checks):
            gpu = ", ".join(self.observed.get(self.grants.get(rank, rank), [])) or "no GPU"
            own, usual = found.get(rank, (0.0, 0.0))
            text = f"rank {rank} ({gpu}) needs {own:.1f} ms for what others do in {usual:.1f} ms: suspect"
            self.warn(f"slow-{rank}", text if rank in found else "")

    def warn(self, key: str, text: str) -> None:
        """Set a warning. An empty text withdraws it. If there are too many, the first ones stay."""
        if text and (key in self.warnings or len(self.warnings) < WARNINGS_MAX):
            self.warnings[key] = plain_text(text, WARNING_CHARS_MAX)
        elif not text:
            self.warnings.pop(key, None)

    def shown_warnings(self) -> tuple[str, ...]:
        """Warnings by key. If there are too many: the first ones, and the number of the others."""
        texts = [text for _, text in sorted(self.warnings.items())]
        more = len(texts) - SHOWN_WARNINGS_MAX
        return (*texts[:SHOWN_WARNINGS_MAX], *([f"and {more} more warnings"] if more > 0 else []))

    def report_warnings(self) -> tuple[str, ...]:
        """Warnings about values that the program reported."""
        return tuple(text for key, text in sorted(self.warnings.items()) if key.startswith(REPORTED))

    def began(self, generation: int) -> None:
        """Begin a generation. The state of the last one no longer holds."""
        self.state = "rendezvous"
        self.busy = self.active_at = None
        self.restarts = generation
        self._window.clear()
        self.checks.clear()
        self.slow.clear()
        for view in self.ranks.values():
            view.metrics.clear()

    def started(self) -> None:
        """The processes of this generation run. Only their reports show that they train."""
        if self.state == "rendezvous":
            self.state = "running"

    def mark(self, what: str, seconds: float) -> None:
        self.timings.setdefault(what, round(seconds, 3))

    @property
    def rate(self) -> float:
        if len(self._window) < 2:
            return 0.0
        (first_at, first), (last_at, last) = self._window[0], self._window[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0

    def metrics(self) -> dict[str, float]:
        """The mean of each metric over the ranks that report it."""
        values: dict[str, list[float]] = {}
        for view in self.ranks.values():
            for name, value in view.metrics.items():
                values.setdefault(name, []).append(value)
        means = {name: mean(found) for name, found in sorted(values.items())}
        return {name: value for name, value in means.items() if math.isfinite(value)}

    def lost_metrics(self) -> dict[str, float]:
        """Metrics that are NaN or infinite on some rank. The means of `metrics` leave those ranks out."""
        return self._lost.now()

    def results(self) -> dict[str, float | int | str]:
        """Final results of the job: means of the final metrics, and the text that rank 0 returned."""
        returned: dict[str, list[float]] = {}
        text: dict[str, float | int | str] = {}
        for rank in sorted(self.ranks):
            for name, value in self.ranks[rank].results.items():
                if isinstance(value, str):
                    text.setdefault(name, value)
                else:
                    returned.setdefault(name, []).append(value)
        means = {name: mean(found) for name, found in returned.items()}
        return {**self.metrics(), **means, **text}

    def progress(self) -> Progress:
        leader = self.ranks.get(0, RankView())
        return Progress(
            state=self.state,
            step=leader.step,
            of=leader.of,
            rate=round(self.rate, 4),
            metrics=self.metrics(),
            lost_metrics=tuple(
                f"{name} is {'NaN' if math.isnan(value) else 'infinite'}" for name, value in self.lost_metrics().items()
            ),
            last_checkpoint_step=self.saved_step,
            last_checkpoint_at=self.saved_at,
            collective=self.collective,
            warnings=self.shown_warnings(),
            observed_gpus={str(grant): uuids for grant, uuids in sorted(self.observed.items())},
            memory_peak_mib=dict(self.memory_peak),
            slow_ranks={str(self.grants.get(rank, rank)): times for rank, times in sorted(self.slow.items())},
            checked_on=self.checked_on,
            restarts=self.restarts,
            staged_bytes=self.staging.fetched_bytes,
            staging_bytes=self.staging.of_bytes,
            staging_s=self.staging.seconds,
            busy=self.busy,
            active_at=self.active_at,
            updated_at=self.updated_at,
        )


def _whole(number: int) -> int:
    """A number that every JSON reader can hold. A step of a thousand digits would make the answer unreadable."""
    return min(max(0, number), INTEGER_MAX)


def mean(values: list[float]) -> float:
    """The mean; NaN if there is none: infinities of both signs, or a sum that no float holds."""
    if all(value == values[0] for value in values):
        return values[0]  # a whole number stays one
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):
        return math.nan
