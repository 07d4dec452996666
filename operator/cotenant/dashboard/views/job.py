"""The page of one job: its phase, progress, GPUs, checkpoints and events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant.api.scalars.quantities import show_mib
from cotenant.core.model.formatting import format_gpus
from cotenant.dashboard.reading.rows import JobRow, instant, job_row

WIDE: Final = 600
HIGH: Final = 160
EVENTS: Final = 50
RANKS: Final = 64
"""The page lists at most this many ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Steps over time, as points of a drawing of WIDE × HIGH."""

    points: str
    """The points `x,y x,y`, as SVG writes them."""
    ahead: str
    """The straight line to the last step at the present rate; empty if the end is unknown."""
    begin: float
    end: float
    steps: int
    """The number at the top of the drawing."""
    seen: int
    """Points that were seen while a page was open. The status keeps the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLine:
    rank: int
    node: str
    gpus: str
    uuids: str
    sees: str
    """The GPUs that its process really sees. Empty if the process has not reported them, or if they are those that it
    was given.
    """
    peak: str
    is_chief: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    at: float | None
    kind: str
    reason: str
    message: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    row: JobRow
    message: str
    conditions: tuple[Mapping[str, Any], ...]
    progress: Mapping[str, Any]
    metrics: tuple[tuple[str, object], ...]
    results: tuple[tuple[str, object], ...]
    levels: Mapping[str, str]
    ranks: tuple[RankLine, ...]
    ranks_more: int
    curve: Curve | None
    last_exit: Mapping[str, Any]
    earlier: tuple[Mapping[str, Any], ...]
    eviction: Mapping[str, Any]
    evaluator: Mapping[str, Any]
    warnings: tuple[str, ...]


def job_view(document: Mapping[str, Any], seen: Sequence[tuple[float, int]]) -> JobView:
    """The page of a job. `seen`: points of its progress, (Unix seconds, step)."""
    row = job_row(dict(document))
    status = document.get("status") or {}
    progress = status.get("progress") or {}
    ranks = _ranks(status.get("placement") or {}, progress, has_chief=_has_chief(document))
    levels = status.get("isolationLevels") or ({"memory": status["isolation"]} if status.get("isolation") else {})
    return JobView(
        row=row,
        message=str((status.get("pending") or {}).get("message") or status.get("message") or ""),
        conditions=tuple(status.get("conditions") or ()),
        progress=progress,
        metrics=tuple(sorted((progress.get("metrics") or {}).items())),
        results=tuple(sorted((status.get("results") or {}).items())),
        levels=levels,
        ranks=tuple(ranks[:RANKS]),
        ranks_more=max(0, len(ranks) - RANKS),
        curve=_curve(row, progress, seen),
        last_exit=status.get("lastExit") or {},
        earlier=tuple(status.get("earlierExits") or ()),
        eviction=status.get("eviction") or {},
        evaluator=status.get("evaluator") or {},
        warnings=tuple(str(one) for one in progress.get("warnings") or ()),
    )


def _has_chief(document: Mapping[str, Any]) -> bool:
    """True if the job names rank 0 its chief, itself or by its profile."""
    spec, profile = document["spec"], (document.get("status") or {}).get("profile") or {}
    of_profile = (profile.get("spec") or {}).get("chief") if spec.get("resources") is None else None
    return spec.get("chief") is not None or of_profile is not None


def _ranks(placement: Mapping[str, Any], progress: Mapping[str, Any], *, has_chief: bool) -> list[RankLine]:
    sees, peaks = progress.get("observedGpus") or {}, progress.get("memoryPeakMiB") or {}
    lines = []
    for part in placement.get("nodes") or ():
        for rank in part["ranks"]:
            number, gpus = str(rank["rank"]), rank["gpus"]
            given = [str(one["uuid"]) for one in gpus]
            really = [str(one) for one in sees.get(number) or given]
            lines.append(
                RankLine(
                    rank=int(rank["rank"]),
                    node=str(part["node"]),
                    gpus=", ".join(
                        f"{show_mib(one['memoryMiB'])} · {format_gpus(one['computeMilli'])}" for one in gpus
                    ),
                    uuids=", ".join(given),
                    sees="" if sorted(really) == sorted(given) else ", ".join(really),
                    peak=show_mib(int(peaks[number])) if number in peaks else "",
                    is_chief=has_chief and int(rank["rank"]) == 0,
                )
            )
    return sorted(lines, key=lambda line: line.rank)


def _curve(row: JobRow, progress: Mapping[str, Any], seen: Sequence[tuple[float, int]]) -> Curve | None:
    """The curve; None if there are fewer than two points."""
    saved = progress.get("lastCheckpoint") or {}
    known = [
        (row.started, 0 if row.restarts == 0 else None),
        (instant(saved.get("at")), saved.get("step")),
        (instant(progress.get("updatedAt")), progress.get("step")),
    ]
    points = sorted({(at, int(step)) for at, step in [*known, *seen] if at is not None and step is not None})
    if len(points) < 2:
        return None
    last_at, last_step = points[-1]
    of, left = int(progress.get("of") or 0), progress.get("remainingSeconds")
    is_open = left is not None and of > last_step and row.finished is None
    end = last_at + float(left or 0) if is_open else last_at
    begin, top = points[0][0], max([of, *(step for _, step in points), 1])
    wide = max(1.0, end - begin)

    def place(at: float, step: int) -> str:
        return f"{(at - begin) / wide * WIDE:.1f},{HIGH - step / top * HIGH:.1f}"

    return Curve(
        points=" ".join(place(at, step) for at, step in points),
        ahead=f"{place(last_at, last_step)} {place(end, of)}" if is_open else "",
        begin=begin,
        end=end,
        steps=top,
        seen=len(seen),
    )


def event_lines(events: Iterable[Mapping[str, Any]]) -> tuple[EventLine, ...]:
    """The job's Kubernetes Events, the newest first."""
    lines = [
        EventLine(
            at=instant(one.get("lastTimestamp") or one.get("eventTime") or one["metadata"].get("creationTimestamp")),
            kind=str(one.get("type") or ""),
            reason=str(one.get("reason") or ""),
            message=str(one.get("message") or ""),
            count=int(one.get("count") or 1),
        )
        for one in events
    ]
    return tuple(sorted(lines, key=lambda line: -(line.at or 0.0))[:EVENTS])
