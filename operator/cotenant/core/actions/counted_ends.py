"""Assumed ends of all jobs that hold GPUs, as seen by a job for which GPUs are reserved (`tenure`).

A job that runs past its assumed end is assumed to stay a little longer, in steps that grow with the time since then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.core.actions.tenure import Tenures
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.holders import HolderTable
from cotenant.core.gpus.inventory import FloatArray, IntArray
from cotenant.core.model.objects import Job

STEP_S: Final = 60
"""The smallest of these steps."""


@dataclass(frozen=True, slots=True, eq=False)
class Holders:
    """Jobs that hold GPUs, or will when others have left; in order of key."""

    table: HolderTable
    rows: IntArray
    """Rows of the table that count; the other jobs leave anyway."""
    begun: FloatArray
    """[J] for all rows of the table, like `ends`."""
    ends: FloatArray
    """Infinity: unknown."""


def holders_of(
    request: Request,
    tenures: Tenures,
    table: HolderTable,
    rows: IntArray,
    starting: Sequence[tuple[Job, Allocation]] = (),
) -> Holders:
    """Jobs in these rows and `starting`: jobs that start now, or when others have left."""
    if starting:
        table = table.with_starting(rows, starting)
        rows = np.arange(len(table.keys))
    moment = tenures.moment
    if np.isnan(table.begun).any():
        moment.pin()
    begun = np.where(np.isnan(table.begun), moment.at, table.begun)
    ends = begun + tenures.holds_s(request, table)
    over = rows[moment.have_come(ends[rows])]
    ends[over] = moment.rounded_up_by_age(ends[over], STEP_S)
    return Holders(table, rows, np.minimum(begun, moment.at), ends)
