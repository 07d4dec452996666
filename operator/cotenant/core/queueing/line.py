"""The line of a queue: its waiting jobs that take part in a cycle. Jobs beyond the bounds of the line wait outside.

Jobs come into line by user in turn: the first job of each user by priority and age, then the second of each, and so on,
so that no user fills the line alone. The first job is in line however large it is. A job that can never start takes no
place in it; the number of such jobs that are looked at is bounded as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from cotenant.core.model.formatting import counted, format_gpus
from cotenant.core.model.objects import Job, JobKey, PendingBounds
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.queueing.order import order_in_queue
from cotenant.core.quota.tree import QueueTree

_REFUSALS = 100
"""Jobs that can never start are looked at until there are so many more of them than places in the line."""

_Place: TypeAlias = tuple[int, float, str]
_Turn: TypeAlias = tuple[int, _Place]
"""(how many jobs of the same user come before, place by priority and age)."""

Cost: TypeAlias = Callable[[Job], int | None]
"""Milli-GPU that a job asks for at least; None: it can never start."""


def form_lines(tree: QueueTree, jobs: Iterable[Job], cost: Cost) -> dict[str, Line]:
    """Queue → its line, of queues that have bounds; `jobs`: all that wait."""
    bounds = {queue.name: queue.pending for queue in tree.queues if queue.pending is not None}
    waiting: dict[str, list[Job]] = {}
    for job in jobs:
        if job.queue in bounds:
            waiting.setdefault(job.queue, []).append(job)
    return {name: Line(bounds[name], own, cost) for name, own in waiting.items()}


def outside_lines(lines: Mapping[str, Line]) -> dict[JobKey, Refusal]:
    """Waiting jobs beyond the bounds of their queues, with the reason; jobs of one queue share it."""
    found: dict[JobKey, Refusal] = {}
    for name, line in lines.items():
        refusal = _waits_outside(name, line.bounds)
        found.update((job.key, refusal) for job in line.outside)
    return found


@dataclass(frozen=True, slots=True)
class _Step:
    """A turn, and what is left of the bounds before it."""

    turn: _Turn
    is_first: bool
    """No job has taken a place yet."""
    workers: int
    milli: int | None


class Line:
    """The line of one queue, formed once; then it answers of any job in it whether it would be there otherwise too."""

    __slots__ = ("_by_key", "_cost", "_of_user", "_steps", "_waits_from", "bounds", "outside")

    def __init__(self, bounds: PendingBounds, jobs: Sequence[Job], cost: Cost) -> None:
        """`jobs`: all those that wait in this very queue."""
        self.bounds, self._cost = bounds, cost
        self._by_key = {job.key: job for job in jobs}
        self._of_user: dict[str, list[_Place]] = {}
        self._steps: list[_Step] = []
        """One for each job that was looked at. Empty: the line is not formed yet."""
        self._waits_from: dict[str, int] = {}
        """User → number of the step from which on this user's jobs wait, behind one that is too large."""
        workers = sum(job.workers_min for job in jobs)
        is_short = len(jobs) <= bounds.jobs and workers <= bounds.workers and bounds.milli is None
        self.outside: Sequence[Job] = [] if is_short else self._form()
        """Jobs beyond the bounds."""

    def takes(self, changed: Job) -> bool:
        """True if the job, changed like this, would be in line; as if the line were formed again with it.

        If its place does not move back, the steps that are noted tell what is left at its turn: the jobs before it are
        the same. If it moves back, other jobs move up, so the line is formed again.
        """
        place, before = order_in_queue(changed), self._by_key.get(changed.key)
        if before is None or before.user != changed.user or place > order_in_queue(before):
            others = (job for job in self._by_key.values() if job.key != changed.key)
            return changed not in Line(self.bounds, [*others, changed], self._cost).outside
        if not self._steps:
            self._form()
        number = bisect_left(
            self._steps, (bisect_left(self._of_user[changed.user], place), place), key=lambda step: step.turn
        )
        if number == len(self._steps) or self._waits_from.get(changed.user, number) < number:
            return False
        wanted = self._cost(changed)
        return wanted is None or _has_room(self._steps[number], changed, wanted)

    def _form(self) -> list[Job]:
        """Form the line; returns the jobs that stay outside."""
        bounds = self.bounds
        places, refusals = bounds.jobs, bounds.jobs + _REFUSALS
        left = bounds.workers, bounds.milli
        outside: list[Job] = []
        for turn, job in _turns(self._by_key.values()):
            self._of_user.setdefault(job.user, []).append(turn[1])
            if not places or not refusals:
                outside.append(job)
                continue
            step = _Step(turn, places == bounds.jobs, *left)
            self._steps.append(step)
            if job.user in self._waits_from:
                outside.append(job)
                continue
            wanted = self._cost(job)
            if wanted is None:
                refusals -= 1
            elif not _has_room(step, job, wanted):
                self._waits_from[job.user] = len(self._steps) - 1
                outside.append(job)
            else:
                places -= 1
                left = step.workers - job.workers_min, None if step.milli is None else step.milli - wanted
        return outside


def _has_room(step: _Step, job: Job, milli: int) -> bool:
    """True if the job fits into its line; the first one is in it however large it is."""
    return step.is_first or (job.workers_min <= step.workers and (step.milli is None or milli <= step.milli))


def _turns(jobs: Iterable[Job]) -> list[tuple[_Turn, Job]]:
    """Every user's first job by priority and age, then every user's second, and so on."""
    counts: dict[str, int] = {}
    found: list[tuple[_Turn, Job]] = []
    for place, job in sorted(((order_in_queue(job), job) for job in jobs), key=itemgetter(0)):
        turn = counts[job.user] = counts.get(job.user, -1) + 1
        found.append(((turn, place), job))
    found.sort(key=itemgetter(0))
    return found


def _waits_outside(queue: str, bounds: PendingBounds) -> Refusal:
    """Reason for all jobs beyond the bounds of a queue."""
    most = f"{counted(bounds.jobs, 'waiting job')} of at most {counted(bounds.workers, 'worker')} together"
    if bounds.milli is not None:
        most += f" and {format_gpus(bounds.milli)} GPU"
    return Refusal(
        reason=Reason.TOO_MANY_PENDING,
        message=(
            f"Queue {queue} considers {most} at a time (maxPending), its users in turn; this job is considered"
            " when others of the queue have started or are deleted."
        ),
        evidence=(
            ("metric", "waiting jobs"),
            ("scope", f"queue {queue}"),
            ("limit", bounds.jobs),
        ),
    )
