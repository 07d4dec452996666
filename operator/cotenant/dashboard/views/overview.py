"""The overview: how many GPUs there are and what they do, the GPU wall, and which jobs wait and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cotenant.dashboard.reading.rows import GpuNodeRow, JobRow
from cotenant.dashboard.views.line import line_view
from cotenant.dashboard.views.tenants import Palette
from cotenant.dashboard.views.wall import WallView, wall_view
from cotenant.dashboard.views.wish import Wish

NODES: Final = 36
ROWS: Final = 8
"""Waiting jobs that are listed. The page of jobs lists all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewView:
    wall: WallView
    figures: tuple[tuple[str, int], ...]
    """(words, number) of all GPUs and jobs, including those that are not listed."""
    reasons: tuple[tuple[str, int], ...]
    """Why jobs wait, with the number of jobs. The most frequent come first."""
    waiting: Sequence[JobRow]
    """The first waiting jobs."""
    more: int
    """Number of waiting jobs that are not listed."""


def overview_view(nodes: Iterable[GpuNodeRow], jobs: Iterable[JobRow], wish: Wish, palette: Palette) -> OverviewView:
    jobs, nodes = list(jobs), list(nodes)
    plain = replace(wish, show="", page=1)
    wall = wall_view(nodes, jobs, plain, palette, most=NODES)
    line = line_view(jobs, plain)
    waiting = line.jobs.items[:ROWS]
    gpus, idle, ill = (sum(getattr(one, what) for one in wall.classes) for what in ("gpus", "idle", "ill"))
    own = (("GPUs of these jobs", gpus),)  # of who may not read nodes
    return OverviewView(
        wall=wall,
        figures=(
            *((("GPUs", gpus), ("Idle GPUs", idle), ("Ill GPUs", ill)) if nodes or not gpus else own),
            ("Jobs that run", line.counts["running"]),
            ("Jobs that wait", line.counts["waiting"]),
        ),
        reasons=line.reasons,
        waiting=waiting,
        more=line.jobs.total - len(waiting),
    )
