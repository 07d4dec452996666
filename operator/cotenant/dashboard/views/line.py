"""The waiting jobs in the order of their expected starts: why each waits, until when, what would change it; and the
running jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cotenant.core.model.lifecycle import Phase
from cotenant.dashboard.reading.rows import JobRow
from cotenant.dashboard.views.wish import Paged, Wish, in_standing, paged

ROWS: Final = 50
STANDINGS: Final[dict[str, frozenset[str]]] = {
    "waiting": frozenset({Phase.PENDING}),
    "running": frozenset({Phase.STARTING, Phase.RUNNING, Phase.EVICTING}),
    "finished": frozenset({Phase.SUCCEEDED, Phase.FAILED}),
    "held": frozenset({Phase.SUSPENDED, Phase.INVALID}),
}
"""Word on the page → phases. The page shows the first unless another is chosen."""
_LAST: Final = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class LineView:
    show: str
    counts: dict[str, int]
    """Jobs of each standing."""
    reasons: tuple[tuple[str, int], ...]
    """Reasons of the jobs that are shown. The most frequent come first."""
    jobs: Paged[JobRow]


def line_view(jobs: Iterable[JobRow], wish: Wish) -> LineView:
    show, counts, shown = in_standing((job for job in jobs if matches(job, wish)), STANDINGS, wish)
    shown.sort(key=_in_line if show == "waiting" else _newest_first)
    return LineView(
        show=show,
        counts=counts,
        reasons=tuple(Counter(job.reason for job in shown if job.reason).most_common(8)),
        jobs=paged(shown, wish.page, ROWS),
    )


def matches(job: JobRow, wish: Wish) -> bool:
    return wish.takes(job.queue, job.key, job.reason)


def _in_line(job: JobRow) -> tuple[int, float, str]:
    return (_LAST if job.position is None else job.position), job.created, job.key


def _newest_first(job: JobRow) -> tuple[float, str]:
    return -(job.finished or job.started or job.admitted or job.created), job.key
