"""The smallest change of a waiting job, or of its quota, with which this cycle would have started it.

Each change is tried: the changed job is resolved like every other, and must find a place in what is left after *all*
turns, without using a place that is reserved for a job which may come before it. At its own turn it would have found at
least as much room, because room only shrinks during the turns. So the advice holds whether it is followed in this cycle
or in the next one, if nothing else happens meanwhile. Scores do not depend on an edit (`Snapshot.demand_history`), so
no other job's place moves.

A job that will have ended before a reserved place is taken may use that place, and all that are taken later. Why all
this holds: docs/design/0006-scheduling-core.md#proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request, kinds_of
from cotenant.core.cycle.search import find, fits
from cotenant.core.explain.deadline import Deadline
from cotenant.core.explain.job_changes import changes
from cotenant.core.explain.spec_change import SpecChange, Surroundings
from cotenant.core.model.formatting import format_amount
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement import BestFit
from cotenant.core.placement.gang import max_workers
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.queueing.service import Turn
from cotenant.core.quota.headroom import raised_limit

_NO_CHANGE_HELPS = frozenset(
    {Reason.QUEUE_NOT_FOUND, Reason.NAMESPACE_NOT_SERVED, Reason.BUDGET_SPENT, Reason.TOO_MANY_PENDING}
)
OverdueTurn: TypeAlias = tuple[bool, float, JobKey]
"""Order of the turns of overdue jobs: those that have to borrow last; then by the beginning of the wait, and by key."""
SHORTEST_S = 60
"""Shorter run times are not advised: hardly any program starts and does something in less."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptFor:
    """A place that is reserved until a job, or a booking, starts there."""

    starts_at: float
    """Minus infinity: quota alone is reserved, and no run time is short enough to use it."""
    allocation: Allocation
    job: Job | None = None
    """None: it is reserved for an overdue job or a booking. Priority does not help against it, and `expectedRuntime` is
    not enough to use it."""
    turn: OverdueTurn | None = None
    """Of the overdue job."""
    claimed: frozenset[str] = frozenset()
    """Classes of GPUs in which places may have been reserved before that turn."""


class ChangeSearch:
    """Changes of waiting jobs, tried on the occupancy that the turns of one cycle have left. `close` leaves it as it
    was."""

    __slots__ = (
        "_ahead", "_by_fit", "_current", "_found", "_in_line", "_moment", "_overtaken", "_resolve", "_trials_left",
        "_turn",
    )  # fmt: skip

    def __init__(
        self,
        current: Occupancy,
        resolve: Callable[[Job], Request | Refusal],
        in_line: Callable[[Job], bool],
        overtaken: Callable[[Job, Request, Sequence[KeptFor]], Collection[KeptFor]],
        *,
        turn: Callable[[Job], Turn],
        moment: Moment,
        trials: int,
    ) -> None:
        """`in_line`: whether the bounds of the queue would let the changed job take a turn. `overtaken`: those of the
        places for overdue jobs before whose turn the changed job, which makes this request, has its own. `turn`: of
        jobs of one queue, lower first. `trials`: places that are searched in all; after that no change is advised."""
        self._current, self._resolve, self._in_line, self._overtaken = current, resolve, in_line, overtaken
        self._by_fit = Occupancy(current.ledger, current.usage, BestFit())
        """The same occupancy with a cheap scorer: only whether a place exists matters."""
        self._turn, self._moment, self._trials_left = turn, moment, trials
        self._found: dict[tuple[Request, tuple[int, ...]], bool] = {}
        """(request, places that stay reserved) → whether it finds a place."""
        self._ahead: list[tuple[KeptFor, int]] = []
        """Reserved places that are allocated at the moment, each with the mark of the occupancy before it."""

    def smallest_change(self, job: Job, refusal: Refusal, ahead: Sequence[KeptFor]) -> SpecChange | None:
        """The first change, in the order of `changes`, that would start the job at once; then one of its quota.

        `ahead`: places that were reserved ahead of it at its turn. They are no longer allocated.
        """
        if refusal.reason in _NO_CHANGE_HELPS or self._trials_left <= 0:
            return None
        self._take(ahead)
        around = self._surroundings(job, ahead)
        found = changes(job, around, lambda changed, ends_by=None: self._starts(job, changed, ahead, ends_by))
        change = next(found, None)
        if change is None and refusal.reason is Reason.WAITING_FOR_QUOTA:
            change = self._more_quota(job, refusal)
        return change

    def close(self) -> None:
        """Give back all places that are still allocated."""
        self._take(())

    def _take(self, ahead: Sequence[KeptFor]) -> None:
        """Allocate these places. Those that they have in common with the job before stay allocated."""
        same = 0
        while same < min(len(self._ahead), len(ahead)) and self._ahead[same][0] is ahead[same]:
            same += 1
        if same < len(self._ahead):
            self._current.roll_back(self._ahead[same][1])
            del self._ahead[same:]
        for kept in ahead[same:]:
            self._ahead.append((kept, self._current.mark))
            self._current.allocate(kept.allocation)

    def _surroundings(self, job: Job, ahead: Sequence[KeptFor]) -> Surroundings:
        inventory, tree = self._current.inventory, self._current.tree
        asked = {kind.resource for kind in kinds_of(job.gpu, inventory)}
        resources: set[str | None] = {*asked} or {inventory.default_resource}
        bounds = tree.priority_bounds(tree.index[job.queue], of_class=False)
        rivals = (kept.job for kept in ahead if kept.job is not None and kept.job.queue == job.queue)
        above = {rival.priority + 1 for rival in rivals}
        priorities = sorted({bounds.nearest(job.priority), *above} - {job.priority})
        return Surroundings(
            classes=tuple(sorted({kind.gpu_class for kind in inventory.kinds if kind.resource in resources})),
            any_class=inventory.default_resource in resources,
            zones=tuple(sorted(zone for zone in inventory.zones if zone)),
            priorities=tuple(one for one in priorities if bounds.least <= one <= bounds.most),
            workers=self._largest_gang(job, ahead) if job.workers_min > 1 else 1,
            deadlines=self._deadlines(job, ahead),
        )

    def _deadlines(self, job: Job, ahead: Sequence[KeptFor]) -> tuple[Deadline, ...]:
        """Starts of reserved places, latest first. Only those before which the job is not sure to have ended."""
        found, told_at = set[float](), Moment(self._moment.at)
        for kept in ahead:
            said = job.max_runtime_s or (None if kept.job is None else job.expected_runtime_s)
            is_open = said is not None and not self._moment.is_past(kept.starts_at - said)
            if not is_open and not self._moment.is_past(kept.starts_at - SHORTEST_S):
                found.add(kept.starts_at)
        return tuple(Deadline.told(at, told_at) for at in sorted(found, reverse=True))

    def _largest_gang(self, job: Job, ahead: Sequence[KeptFor]) -> int:
        """Workers that fit if neither quotas nor reserved places counted: an upper bound for the search for fewer
        workers."""
        one = self._resolve(replace(job, workers_min=1, workers_max=1))
        if isinstance(one, Refusal):
            return 0
        with self._current.trial():
            for kept in ahead:
                self._current.release(kept.allocation)
            return max(max_workers(self._current.fit_cache, option.placement_request) for option in one.options)

    def _starts(self, job: Job, changed: Job, ahead: Sequence[KeptFor], ends_by: float | None) -> bool:
        request = self._resolve(changed)
        if isinstance(request, Refusal) or not self._keeps_turn_of(job, request):
            return False
        overtaken = self._overtaken(changed, request, ahead)
        # Less service and a shorter rest only bring its turn forward.
        turn = (-changed.priority, *self._turn(job)[1:])
        open_to_it = [
            kept
            for kept in ahead
            if kept in overtaken or self._ends_before(changed, kept, ends_by) or self._passes(turn, request, kept)
        ]
        return self._finds_place_behind(request, ahead, open_to_it) and self._in_line(changed)

    def _finds_place_behind(self, request: Request, ahead: Sequence[KeptFor], open_to_it: Sequence[KeptFor]) -> bool:
        """True if it finds a place without the reserved places that are not open to it. Equal questions share one
        trial."""
        question = request, tuple(id(kept) for kept in ahead if kept not in open_to_it)
        found = self._found.get(question)
        if found is None:
            if self._trials_left <= 0:
                return False
            self._trials_left -= 1
            with self._current.trial():
                for kept in open_to_it:
                    self._current.release(kept.allocation)
                found = self._found[question] = self._finds_place(request)
        return found

    def _ends_before(self, changed: Job, kept: KeptFor, ends_by: float | None) -> bool:
        """True if the changed job will have ended when the place is taken. `ends_by`: when it will for sure."""
        if ends_by is not None:
            return ends_by <= kept.starts_at
        runtime_s = changed.max_runtime_s or (None if kept.job is None else changed.expected_runtime_s)
        return runtime_s is not None and not self._moment.is_past(kept.starts_at - runtime_s)

    def _passes(self, turn: Turn, changed: Request, kept: KeptFor) -> bool:
        """True if the place is reserved for a job of the same queue, before which the changed one has its turn."""
        other = kept.job
        return (
            other is not None
            and other.queue == changed.job.queue
            and turn < self._turn(other)
            and self._keeps_turn_of(other, changed)
        )

    def _finds_place(self, request: Request) -> bool:
        """`fits` alone is exact, except for jobs that are not preemptible: their place must also lie in a guarantee."""
        return fits(self._current, request) and (
            request.job.preemptible or find(self._by_fit, request, request.workers) is not None
        )

    def _keeps_turn_of(self, job: Job, changed: Request) -> bool:
        """True if the changed job stays inside each guarantee on its path that this job is inside: so its queue's turn
        comes no later than with this job."""
        before = self._resolve(job)
        if isinstance(before, Refusal):
            return True
        usage, path = self._current.usage, self._current.tree.paths[changed.queue]
        return all(
            within_guarantee(usage, changed, queue) or not within_guarantee(usage, before, queue) for queue in path
        )

    def _more_quota(self, job: Job, refusal: Refusal) -> SpecChange | None:
        """The binding limit, raised by what is missing, if nothing else is in the way."""
        request, limit = self._resolve(job), refusal.binding
        if isinstance(request, Refusal) or limit is None:
            return None
        missing = int(dict(refusal.evidence)["asked"]) - (limit.limit - limit.used)
        with raised_limit(self._current.usage, limit, missing) as raised:
            if not raised or not self._finds_place(request):
                return None
        return SpecChange(f"{limit.scope} had {format_amount(limit.measure, missing)} more")
