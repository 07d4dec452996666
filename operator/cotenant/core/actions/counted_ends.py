"""Ends of running jobs as they are counted (`tenure`), for all holders of GPUs at once.

For each job the same as `Tenures.counted_until` and `Tenures.is_certain`; who has outlived what is counted is taken to
stay for a little longer, in steps that grow with the time by which it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from cotenant.core.actions.holders import HolderTable
from cotenant.core.actions.tenure import LEARNED_PERCENT, Tenures
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.request import Request
from cotenant.core.gpus.inventory import BoolArray, FloatArray, IntArray
from cotenant.core.model.objects import Job
from cotenant.core.runtimes.learned import ENOUGH, quantile

STEP_S: Final = 60
"""The least of those steps."""


@dataclass(frozen=True, slots=True, eq=False)
class Holders:
    """Who holds GPUs, or will when others have left; in order of key."""

    table: HolderTable
    rows: IntArray
    """Of the table; the others leave anyway."""
    begun: FloatArray
    """[J] over all rows of the table, as the rest."""
    ends: FloatArray
    """Infinity: without end."""
    certain: BoolArray
    """The end as counted is enforced, and not only learned."""


def holders_of(
    request: Request,
    tenures: Tenures,
    table: HolderTable,
    rows: IntArray,
    starting: Sequence[tuple[Job, Allocation]] = (),
) -> Holders:
    """Those in these rows, counted for the request, and with them `starting`: jobs that start, now or when others have
    left."""
    if starting:
        table = table.with_starting(rows, starting)
        rows = np.arange(len(table.keys))
    if np.isnan(table.begun).any():
        tenures.moment.pin()
    begun = np.where(np.isnan(table.begun), tenures.moment.unnoted, table.begun)
    seconds, certain = _counted(request, tenures, table)
    ends = begun + seconds
    _go_on_with_outlived(request, tenures, table, begun, ends)
    over = rows[tenures.moment.have_come(ends[rows])]
    ends[over] = tenures.moment.rounded_up_by_age(ends[over], STEP_S)
    return Holders(table, rows, np.minimum(begun, tenures.moment.unnoted), ends, certain)


def _counted(request: Request, tenures: Tenures, table: HolderTable) -> tuple[FloatArray, BoolArray]:
    """([J] seconds from its start for which each is counted to hold its GPUs, [J] whether that is certain)."""
    terms, declared = tenures.terms(request, table), table.longest_s < inf
    learned = np.array([tenures.learned_s(name) for name, _ in table.kinds])[table.kind]
    most = np.where(declared, table.longest_s, learned)
    seconds = np.minimum(most, terms.longest_s)
    seconds = np.where(_never_covered(request, tenures, table), np.minimum(seconds, terms.lent_s(table)), seconds)
    seconds = np.where(seconds < inf, np.maximum(seconds, terms.protected_s), inf)
    seconds = np.where(terms.asked, seconds, most)
    return seconds, declared | (seconds != learned)


def _go_on_with_outlived(
    request: Request, tenures: Tenures, table: HolderTable, begun: FloatArray, ends: FloatArray
) -> None:
    """Who has outlived what it was counted for, without a maxRuntime, goes on until it may be asked to leave, or as
    those that ran for longer."""
    moment = tenures.moment
    open_ended = np.flatnonzero((table.longest_s == inf) & (ends < inf))
    over = open_ended[moment.have_come(ends[open_ended])]
    if not len(over):
        return
    lent = _never_covered(request, tenures, table)
    may_leave = begun + tenures.terms(request, table).may_leave_after(table, lent=lent)
    ends[over] = may_leave[over]
    over = over[may_leave[over] > moment.unnoted]
    for number in np.unique(table.kind[over]).tolist():
        of_kind = over[table.kind[over] == number]
        runs_s = np.array(tenures.runtimes.runs_of_queue(table.kinds[number][0]), dtype=np.float64)
        shorter = np.searchsorted(runs_s, np.floor(moment.unnoted - begun[of_kind]), side="right")
        for count in np.unique(shorter).tolist():
            alike = of_kind[shorter == count]
            longer = runs_s[count:]
            if len(longer) >= ENOUGH:
                moment.have_come(begun[alike] + longer[0])  # then fewer are longer
                ends[alike] = np.minimum(ends[alike], begun[alike] + quantile(longer.tolist(), LEARNED_PERCENT))


def _never_covered(request: Request, tenures: Tenures, table: HolderTable) -> BoolArray:
    """[J]."""
    index = tenures.tree.index
    by_kind = [name in index and tenures.never_covers(request, index[name]) for name, _ in table.kinds]
    return np.array(by_kind, dtype=np.bool_)[table.kind]
