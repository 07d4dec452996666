"""The history: finished runs, also of deleted jobs, the newest first; the cost of each and how well it used its
GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant.core.model.formatting import format_cost
from cotenant.dashboard.reading.run_rows import OVER, RunRow
from cotenant.dashboard.views.wish import Paged, Wish, paged

ROWS: Final = 50
DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    counts: dict[str, int]
    """Runs of each outcome."""
    runs: Paged[RunRow]
    gpu_s: int
    """GPU-seconds that all these runs held."""
    cost: str
    """Cost of all these runs; empty if there are no prices."""


def history_view(runs: Iterable[RunRow], wish: Wish, now: float) -> HistoryView:
    matching = [run for run in runs if _matches(run, wish, now)]
    outcomes = Counter(run.outcome for run in matching)
    shown = [run for run in matching if wish.show in ("", run.outcome)]
    shown.sort(key=lambda run: (-(run.finished or now), run.key))
    return HistoryView(
        counts={outcome: outcomes[outcome] for outcome in OVER},
        runs=paged(shown, wish.page, ROWS),
        gpu_s=sum(run.gpu_s for run in shown),
        cost=cost_of(shown),
    )


def cost_of(runs: Sequence[RunRow]) -> str:
    """A cost: `12.50 EUR`, with a question mark if a part has no price."""
    priced = [run for run in runs if run.micros is not None]
    if not priced:
        return ""
    amount = format_cost(sum(run.micros or 0 for run in priced))
    is_whole = len(priced) == len(runs) and not any(run.is_priced_in_part for run in priced)
    return f"{amount} {priced[0].currency}" + ("" if is_whole else " + ?")


def _matches(run: RunRow, wish: Wish, now: float) -> bool:
    if wish.user not in ("", run.user) or (wish.days and (run.finished or now) < now - wish.days * DAY_S):
        return False
    return wish.takes(run.queue, run.key, run.reason, run.message)
