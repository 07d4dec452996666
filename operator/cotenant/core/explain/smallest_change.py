"""The smallest change of a waiting job, or of its quota, with which this very cycle would have started it.

Each change is tried, not guessed: the changed job is resolved like every other, and has to find its place in what is
left after *all* turns, besides every place that is kept for a job which may come before it. That is at most what it
would have found at its own turn, because space only becomes less while turns are taken and a job that waits takes none.
So the advice holds whether it is followed in this cycle or in the next one, if nothing else happens meanwhile.

A job that is sure to end before some kept place is taken may use that place, and all that are taken later. Which these
are depends on the moment only if an instant is less than a minute away, or less than the job says that it runs; these
comparisons are noted. Why all this holds: docs/design/0006-scheduling-core.md#proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request, kinds_of
from cotenant.core.cycle.search import find, fits
from cotenant.core.explain.deadline import Deadline
from cotenant.core.explain.job_changes import changes
from cotenant.core.explain.spec_change import SpecChange, Surroundings
from cotenant.core.model.formatting import format_amount
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement import BestFit
from cotenant.core.placement.gang import max_workers
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.quota.headroom import raised_limit

_NO_CHANGE_HELPS = frozenset(
    {Reason.QUEUE_NOT_FOUND, Reason.NAMESPACE_NOT_SERVED, Reason.BUDGET_SPENT, Reason.TOO_MANY_PENDING}
)
SHORTEST_S = 60
"""Nobody is advised to end sooner: hardly a program starts and does something in less."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptFor:
    """A place that is kept for a job until it starts there."""

    job: Job
    starts_at: float
    allocation: Allocation
    is_collected: bool = False
    """Priority does not matter there, and a hope to end in time is not enough."""


class ChangeSearch:
    """Changes of waiting jobs, tried on the occupancy that the turns of one cycle have left. `close` leaves it as it
    was."""

    __slots__ = ("_ahead", "_by_fit", "_current", "_found", "_in_line", "_moment", "_resolve", "_trials_left")

    def __init__(
        self,
        current: Occupancy,
        resolve: Callable[[Job], Request | Refusal],
        in_line: Callable[[Job], bool],
        *,
        moment: Moment,
        trials: int,
    ) -> None:
        """`in_line`: the queue's bounds would let the changed job take a turn. `trials`: how many places are looked for
        in all; afterwards nothing is advised any more."""
        self._current, self._resolve, self._in_line = current, resolve, in_line
        self._by_fit = Occupancy(current.ledger, current.usage, BestFit())
        """The same, where any place is as good as another."""
        self._moment, self._trials_left = moment, trials
        self._found: dict[tuple[Request, tuple[int, ...]], bool] = {}
        """(request, places that are taken) → it finds a place."""
        self._ahead: list[tuple[KeptFor, int]] = []
        """Places that are taken for now, each with the mark of the occupancy before."""

    def smallest_change(self, job: Job, refusal: Refusal, ahead: Sequence[KeptFor]) -> SpecChange | None:
        """The first change, in the order of `changes`, that would start the job at once; then one of its quota.

        `ahead`: places that were kept for ahead at its turn, and are not allocated any more.
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
        """Give back the places that are taken."""
        self._take(())

    def _take(self, ahead: Sequence[KeptFor]) -> None:
        """Take these places. The first of them are mostly those of the job before, and stay."""
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
        above = {kept.job.priority + 1 for kept in ahead if kept.job.queue == job.queue}
        priorities = sorted({bounds.nearest(job.priority), *above} - {job.priority})
        return Surroundings(
            classes=tuple(sorted({kind.gpu_class for kind in inventory.kinds if kind.resource in resources})),
            any_class=inventory.default_resource in resources,
            zones=tuple(sorted(zone for zone in inventory.zones if zone)),
            priorities=tuple(one for one in priorities if bounds.least <= one <= bounds.most),
            workers=self._largest_gang(job, ahead),
            deadlines=self._deadlines(job, ahead),
        )

    def _deadlines(self, job: Job, ahead: Sequence[KeptFor]) -> tuple[Deadline, ...]:
        """Deadlines of kept places, latest first; of a job that says how long it runs only those that are nearer."""
        said = job.max_runtime_s or job.expected_runtime_s
        instants = sorted({kept.starts_at for kept in ahead}, reverse=True)
        told_at = Moment(self._moment.at)
        return tuple(
            Deadline.told(at, told_at)
            for at in instants
            if not self._moment.is_past(at - SHORTEST_S) and (said is None or self._moment.is_past(at - said))
        )

    def _largest_gang(self, job: Job, ahead: Sequence[KeptFor]) -> int:
        """Where neither quotas nor kept places count. Bounds the search for fewer workers of very large gangs."""
        one = self._resolve(replace(job, workers_min=1, workers_max=1))
        if isinstance(one, Refusal):
            return 0
        with self._current.trial():
            for kept in ahead:
                self._current.release(kept.allocation)
            return max(max_workers(self._current.fit_cache, option.placement_request) for option in one.options)

    def _starts(self, job: Job, changed: Job, ahead: Sequence[KeptFor], ends_by: float | None) -> bool:
        request = self._resolve(changed)
        if isinstance(request, Refusal) or not self._keeps_its_turn(job, request):
            return False
        open_to_it = [kept for kept in ahead if self._may_go_before(changed, kept, ends_by)]
        finds_place = self._finds_place_behind(request, ahead, ()) or (
            bool(open_to_it) and self._finds_place_behind(request, ahead, open_to_it)
        )
        return finds_place and self._in_line(changed)

    def _finds_place_behind(self, request: Request, ahead: Sequence[KeptFor], open_to_it: Sequence[KeptFor]) -> bool:
        """It finds a place besides those that are kept ahead and are not open to it. Equal questions are one trial."""
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

    def _may_go_before(self, changed: Job, kept: KeptFor, ends_by: float | None) -> bool:
        """The changed job will have ended in time, or has its turn before the other. `ends_by`: it is sure to have."""
        runtime_s = changed.max_runtime_s or (None if kept.is_collected else changed.expected_runtime_s)
        if ends_by is not None:
            in_time = ends_by <= kept.starts_at
        else:
            in_time = runtime_s is not None and not self._moment.is_past(kept.starts_at - runtime_s)
        if in_time:
            return True
        return not kept.is_collected and kept.job.queue == changed.queue and kept.job.priority < changed.priority

    def _finds_place(self, request: Request) -> bool:
        """`fits` is exact, but for jobs that may not be evicted, whose place has to lie in a guarantee."""
        return fits(self._current, request) and (
            request.job.preemptible or find(self._by_fit, request, request.workers) is not None
        )

    def _keeps_its_turn(self, job: Job, changed: Request) -> bool:
        """The change takes the job out of no guarantee on its path: it comes no later than it did."""
        before = self._resolve(job)
        if isinstance(before, Refusal):
            return True
        usage, path = self._current.usage, self._current.tree.paths[changed.queue]
        return all(
            within_guarantee(usage, changed, queue) or not within_guarantee(usage, before, queue) for queue in path
        )

    def _more_quota(self, job: Job, refusal: Refusal) -> SpecChange | None:
        """The limit that binds, raised by what is missing, where that is the only thing in the way."""
        request, limit = self._resolve(job), refusal.binding
        if isinstance(request, Refusal) or limit is None:
            return None
        missing = int(dict(refusal.evidence)["asked"]) - (limit.limit - limit.used)
        with raised_limit(self._current.usage, limit, missing) as raised:
            if not raised or not self._finds_place(request):
                return None
        return SpecChange(f"{limit.scope} had {format_amount(limit.measure, missing)} more")
