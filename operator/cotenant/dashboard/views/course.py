"""The course of a finished run: when it waited and when it held GPUs, between its submission and its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from cotenant.dashboard.reading.rows import instant

WIDE: Final = 1000
HELD: Final = frozenset({"Admitted", "Resized", "Running"})
WAITED: Final = frozenset({"Waits", "Evicted", "Suspended"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseBar:
    x: float
    width: float
    kind: str
    """`waits` or `runs`."""
    says: str


def course(status: Mapping[str, Any]) -> tuple[CourseBar, ...]:
    """Bars from the submission to the end, from the record. Empty if either time is unknown."""
    begin, end = instant(status.get("createdAt")), instant(status.get("finishedAt"))
    if begin is None or end is None or end <= begin:
        return ()
    turns: list[tuple[float, str]] = [(begin, "waits")]
    for one in status.get("timeline") or ():
        kind = "runs" if one.get("what") in HELD else "waits" if one.get("what") in WAITED else ""
        at = instant(one.get("at"))
        if not kind or at is None:
            continue
        at = min(max(at, turns[-1][0]), end)
        if at == turns[-1][0]:
            turns.pop()  # of no length
        if not turns or turns[-1][1] != kind:
            turns.append((at, kind))
    edges = pairwise([*turns, (end, "")])
    return tuple(_bar(since, until, kind, begin, end) for (since, kind), (until, _) in edges if until > since)


def _bar(since: float, until: float, kind: str, begin: float, end: float) -> CourseBar:
    x, to = ((at - begin) / (end - begin) * WIDE for at in (since, until))
    word = "held GPUs" if kind == "runs" else "waited"
    return CourseBar(
        x=round(x, 2), width=max(2.0, round(to - x, 2)), kind=kind, says=f"{word} {clock(since)} to {clock(until)}"
    )


def clock(moment: float) -> str:
    """A time as bars name it: `11-27 09:30 UTC`."""
    return datetime.fromtimestamp(moment, UTC).strftime("%m-%d %H:%M UTC")
