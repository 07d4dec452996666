"""The time by which every waiting job has started at the latest, whoever else comes: its bound.

Jobs that are entitled to what they ask for (`Tenures.is_entitled`) are served, once they are overdue, in the order of
the time for which they have waited. With the patience p, h the longest time for which anybody is counted to hold GPUs
(`tenure`), and jobs of one class of GPUs in that order, the bound of the first is
    b₁ = T                  if GPUs are collected for it (`collect`), else     b₁ = s₁ + p + h
and of every other one
    bₙ = max(bₙ₋₁, sₙ + p) + h                                   where sₙ is when it began to wait
because it is the first at max(bₙ₋₁, sₙ + p) at the latest, and overdue, and whoever holds its GPUs then has left h
later. A job that may run on several classes goes behind those before it in each of them.

Bounds do not move back. Nobody comes into the order before a job: who comes, or gives GPUs back and waits again, has
waited for less (of one second, the keys decide). Whoever leaves the order makes those behind it first earlier. And
T ≤ s + p + h, because a job that runs when the first becomes overdue has left h later.

What h is. Where an administrator has set a tenure it is that, for any stream: who holds GPUs for longer is evicted,
and who may not be (`Job.preemptible`) has to have a `maxRuntime` within h, or to leave enough beside it. Without a
tenure nobody is evicted inside a guarantee, so h is the longest for which any job that runs or waits is counted, and
bₙ holds as long as nobody comes who is counted for longer; T depends on nobody who comes. Where some job in the way is
counted without end, there is no bound (`UNKNOWN`). All of it needs a stream: where nothing comes, ends or changes,
nobody is evicted twice. Nodes that fail and guarantees that change begin the count anew; so does an older job that
comes into the line of a queue with `maxPending`.

Example: p = 6 h and nobody has a `maxRuntime` above 12 h: a gang that came an hour ago starts within 17 h, the next one
within 29 h; what is expected (`estimatedStart`) is mostly far below.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

from cotenant.core.actions.collect import Collection
from cotenant.core.actions.tenure import waits_since
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import StartBound

UNKNOWN: Final = "It is not known, because of jobs without a maxRuntime, here or ahead, that may run without end."
HAS_TO_BORROW: Final = (
    "It is not known: the job asks for more than its queue is guaranteed, and other queues may need what they are."
)


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """An entitled job that waits."""

    job: Job
    classes: tuple[str, ...]
    """Of GPUs on which it may run."""
    longest_s: float
    """h, for the request of the job; infinity: somebody in its way is counted without end."""
    is_certain: bool = True
    """What h counts is enforced, and not only learned."""
    is_overdue: bool = False
    collection: Collection | None = None


def waiting_order(job: Job) -> tuple[float, JobKey]:
    """Order by wait, the longest first."""
    return waits_since(job), job.key


def start_bounds(waiting: Iterable[Waiting], *, patience_s: float, on_learned: str) -> dict[JobKey, StartBound]:
    """Waiting job → its bound. `on_learned`: the basis of bounds that are not certain."""
    last: dict[str, tuple[float, bool]] = {}
    """Class → the bound of the last job so far, and whether it is certain."""
    found: dict[JobKey, StartBound] = {}
    for one in sorted(waiting, key=lambda one: waiting_order(one.job)):
        before, is_certain = -inf, one.is_certain
        for name in one.classes:
            if name in last:
                before, is_certain = max(before, last[name][0]), is_certain and last[name][1]
        if before == -inf and one.is_overdue:
            bound = _collected(one.collection)
        else:
            at = max(before, waits_since(one.job) + patience_s) + one.longest_s
            bound = StartBound(at, UNKNOWN if at == inf else "" if is_certain else on_learned)
        last.update(dict.fromkeys(one.classes, (bound.at, not bound.basis)))
        found[one.job.key] = bound
    return found


def _collected(collection: Collection | None) -> StartBound:
    if collection is None:
        return StartBound(inf, UNKNOWN)
    return StartBound(inf if collection.starts_by is None else collection.starts_by, collection.basis)
