"""The page of a job that is gone, from the operator's record of its run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant.api.scalars.quantities import show_mib
from cotenant.dashboard.reading.rows import instant
from cotenant.dashboard.reading.run_rows import RunRow, run_row
from cotenant.dashboard.views.course import CourseBar, course
from cotenant.dashboard.views.history import cost_of

HAPPENINGS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HappeningLine:
    at: float | None
    what: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    row: RunRow
    figures: tuple[tuple[str, str], ...]
    """(name, amount)."""
    happenings: tuple[HappeningLine, ...]
    """What happened, the newest first."""
    tail: str
    advice: tuple[str, ...]
    course: tuple[CourseBar, ...]


def run_view(document: Mapping[str, Any]) -> RunView:
    status = document.get("status") or {}
    timeline = list(status.get("timeline") or ())[-HAPPENINGS:]
    return RunView(
        row=run_row(dict(document)),
        figures=tuple(_figures(status, _cost(document))),
        happenings=tuple(
            HappeningLine(
                at=instant(one.get("at")),
                what=str(one.get("what", "")),
                reason=str(one.get("reason", "")),
                message=str(one.get("message", "")),
            )
            for one in reversed(timeline)
        ),
        tail="\n".join(str(line) for line in status.get("tail") or ()),
        advice=tuple(str(one) for one in status.get("advice") or ()),
        course=course(status),
    )


def recorded_figures(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Figures that the job's own object does not have: its owner, its cost, its use of GPUs."""
    status = document.get("status") or {}
    known = dict(_figures(status, _cost(document))) | ({"User": str(status["user"])} if status.get("user") else {})
    return tuple((name, known[name]) for name in ("User", "Cost", "GPUs busy", "Most GPU memory") if name in known)


def _cost(document: Mapping[str, Any]) -> str:
    return cost_of([run_row(dict(document))]) if "cost" in (document.get("status") or {}) else ""


def _figures(status: Mapping[str, Any], cost: str) -> Iterator[tuple[str, str]]:
    """The known figures, in the order of the page."""
    use = status.get("use") or {}
    if "gpuSeconds" in status:
        yield "GPU-hours held", f"{status['gpuSeconds'] / 3600:.2f}"
    if cost:
        yield "Cost", cost
    for name, field in (
        ("GPUs of", "gpuClass"), ("Workers", "workers"), ("Attempts", "attempts"), ("Restarts", "restarts"),
        ("Steps", "steps"), ("Exit code", "exitCode"), ("Exit", "exitReason"),
    ):  # fmt: skip
        if field in status:
            yield name, str(status[field])
    if "busyPercent" in use:
        yield "GPUs busy", f"{use['busyPercent']} %"
    if "memoryPeakMiB" in use:
        yield "Most GPU memory", show_mib(use["memoryPeakMiB"])
