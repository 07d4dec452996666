"""The line: waiting jobs of a queue that take part in a cycle. Those beyond its bounds wait outside, and cost little.

Users of a queue come into line in turn, everybody's first job by priority and age, then everybody's second, …, so that
nobody fills it alone. The first job is in line however large it is. A job that can never start takes no place; but how
many of such are looked at is bounded as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from cotenant.core.model.formatting import counted, format_gpus
from cotenant.core.model.objects import Job, JobKey, TenantQueue
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.queueing.order import order_in_queue
from cotenant.core.quota.tree import QueueTree

_REFUSALS = 100
"""Jobs that can never start, looked at beyond as many as would fill the line."""

Cost: TypeAlias = Callable[[Job], int | None]
"""Milli-GPU that a job asks for at least; None: it can never start."""


def outside_lines(tree: QueueTree, jobs: Iterable[Job], cost: Cost) -> dict[JobKey, Refusal]:
    """Waiting jobs beyond the bounds of their queues, with the reason; jobs of one queue share it."""
    waiting: dict[int, list[Job]] = {}
    for job in jobs:
        queue = tree.index.get(job.queue)
        if queue is not None and tree.queues[queue].pending is not None:
            waiting.setdefault(queue, []).append(job)
    found: dict[JobKey, Refusal] = {}
    for queue, own in waiting.items():
        if beyond := outside_line(tree.queues[queue], own, cost):
            refusal = waits_outside(tree.queues[queue])
            found.update((job.key, refusal) for job in beyond)
    return found


def outside_line(queue: TenantQueue, jobs: Sequence[Job], cost: Cost) -> list[Job]:
    """Jobs beyond the bounds, out of all those that wait in this very queue."""
    bounds = queue.pending
    if bounds is None or (
        len(jobs) <= bounds.jobs and bounds.milli is None and sum(job.workers_min for job in jobs) <= bounds.workers
    ):
        return []
    places, workers, milli = bounds.jobs, bounds.workers, bounds.milli
    refusals = bounds.jobs + _REFUSALS
    outside: list[Job] = []
    waits: set[str] = set()
    """Users whose next job is too large for what is left: those behind it do not overtake it."""
    for job in in_turn(jobs):
        if not places or not refusals or job.user in waits:
            outside.append(job)
            continue
        wanted = cost(job)
        if wanted is None:
            refusals -= 1
        elif places < bounds.jobs and (job.workers_min > workers or (milli is not None and wanted > milli)):
            waits.add(job.user)
            outside.append(job)
        else:
            places, workers = places - 1, workers - job.workers_min
            milli = None if milli is None else milli - wanted
    return outside


def in_turn(jobs: Sequence[Job]) -> Iterator[Job]:
    """Every user's first job by priority and age, then every user's second, and so on."""
    turns: dict[str, int] = {}
    found: list[tuple[int, int, Job]] = []
    for place, job in enumerate(sorted(jobs, key=order_in_queue)):
        turn = turns[job.user] = turns.get(job.user, -1) + 1
        found.append((turn, place, job))
    found.sort(key=lambda one: one[:2])
    return (job for _, _, job in found)


def waits_outside(queue: TenantQueue) -> Refusal:
    """Reason for all jobs beyond the bounds of a queue."""
    bounds = queue.pending
    if bounds is None:
        raise ValueError(f"queue {queue.name} has no bounds")
    most = f"{counted(bounds.jobs, 'waiting job')} of at most {counted(bounds.workers, 'worker')} together"
    if bounds.milli is not None:
        most += f" and {format_gpus(bounds.milli)} GPU"
    return Refusal(
        reason=Reason.TOO_MANY_PENDING,
        message=(
            f"Queue {queue.name} has {most} in line (maxPending), its users' in turn; this job comes into line when"
            " others of the queue have started or are deleted."
        ),
        evidence=(
            ("metric", "waiting jobs"),
            ("scope", f"queue {queue.name}"),
            ("limit", bounds.jobs),
        ),
    )
