"""The latest start of each waiting job (`startsBy`), whatever other jobs come. See docs/design/0006-scheduling-core.md.

Overdue jobs that are entitled to what they ask for (`Tenures.is_entitled`) are served in the order of their wait. With
the patience p, and h the longest time for which a job of the class may hold GPUs, the jobs of one class are bounded by
    b₁ = the end of the reservation's last holder, if GPUs are reserved for it, else s₁ + p + h
    bₙ = max(bₙ₋₁, sₙ + p) + h                        where sₙ is when the job began to wait
h is the tenure limit if one is set, else the longest `maxRuntime` of all jobs that run or wait there. A job without an
end gives no h, and so no bound. A job that comes later and may run longer than h moves the bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

from cotenant.core.actions.collect import Collection
from cotenant.core.actions.tenure import Tenures, waits_since
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import StartBound

UNKNOWN: Final = (
    "There is no latest start, because a job that runs or waits on such GPUs has no maxRuntime. A maxRuntime for all of"
    " them, or a tenure limit of the cluster, would give one."
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An entitled job that waits."""

    job: Job
    classes: tuple[str, ...]
    """Of GPUs on which it may run."""
    longest_s: float
    """h; infinity if a job of these classes has no end."""
    collection: Collection | None = None


def waiting_order(job: Job) -> tuple[float, JobKey]:
    """Order by wait, the longest first."""
    return waits_since(job), job.key


def start_bounds(waiting: Iterable[Waiting], tenures: Tenures) -> dict[JobKey, StartBound]:
    """Waiting job → its bound."""
    last: dict[str, float] = {}
    """Class → the bound of the last job so far."""
    found: dict[JobKey, StartBound] = {}
    for one in sorted(waiting, key=lambda one: waiting_order(one.job)):
        before = max((last[name] for name in one.classes if name in last), default=-inf)
        if before == -inf and tenures.is_overdue(one.job):
            bound = _reserved(one.collection)
        else:
            at = max(before, waits_since(one.job) + tenures.patience_s) + one.longest_s
            bound = StartBound(at, UNKNOWN if at == inf else "")
        last.update(dict.fromkeys(one.classes, bound.at))
        found[one.job.key] = bound
    return found


def _reserved(collection: Collection | None) -> StartBound:
    if collection is None:
        return StartBound(inf, UNKNOWN)
    return StartBound(inf if collection.starts_by is None else collection.starts_by, collection.basis)
