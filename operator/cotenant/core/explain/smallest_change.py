"""The smallest change of a waiting job, or of its quota, with which this very cycle would have started it.

Each change is tried, not guessed: the changed job is resolved like every other, and has to find its place in what is
left after *all* turns, besides every place that is kept for a job which may come before it. That is at most what it
would have found at its own turn, because space only becomes less while turns are taken and a job that waits takes none.
So the advice holds whether it is followed in the cycle that gave it or in the next one, in which nothing else happened:
- jobs that were before it decide as they did, since the order looks at nothing that the change moves but the guarantee,
  and a change that takes the job out of a guarantee is not advised;
- its own reservation, if it had one, is gone with its wait; one of somebody else can only lie where it lies now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.search import find, fits
from cotenant.core.explain.job_changes import Change, Surroundings, changes
from cotenant.core.model.formatting import format_gpus, format_mib
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement import BestFit
from cotenant.core.placement.gang import max_workers
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.queueing.priority_bounds import priority_bounds
from cotenant.core.quota.usage import BindingLimit

_NO_CHANGE_HELPS = frozenset(
    {Reason.QUEUE_NOT_FOUND, Reason.NAMESPACE_NOT_SERVED, Reason.BUDGET_SPENT, Reason.TOO_MANY_PENDING}
)


@dataclass(frozen=True, slots=True, eq=False)
class KeptFor:
    """A place that is kept for a job until it starts there."""

    job: Job
    starts_at: float
    allocation: Allocation
    is_collected: bool = False
    """Priority does not matter there, and a hope to end in time is not enough."""


class ChangeSearch:
    """Changes of waiting jobs, tried on the occupancy that the turns of one cycle have left. Leaves it as it was."""

    __slots__ = ("_by_fit", "_current", "_in_line", "_moment", "_resolve", "_trials_left")

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

    def smallest_change(self, job: Job, refusal: Refusal, ahead: Sequence[KeptFor]) -> Change | None:
        """The first change, in the order of `changes`, that would start the job at once; then one of its quota.

        `ahead`: places that were kept for ahead at its turn, and are not allocated any more.
        """
        if refusal.reason in _NO_CHANGE_HELPS or self._trials_left <= 0:
            return None
        with self._current.trial():
            for kept in ahead:
                self._current.allocate(kept.allocation)
            found = changes(job, self._surroundings(job, ahead), lambda changed: self._starts(job, changed, ahead))
            change = next(found, None)
            if change is None and refusal.reason is Reason.WAITING_FOR_QUOTA:
                change = self._more_quota(job, refusal)
        return change

    def _surroundings(self, job: Job, ahead: Sequence[KeptFor]) -> Surroundings:
        inventory, tree = self._current.inventory, self._current.tree
        bounds = priority_bounds(tree, tree.index[job.queue], of_class=False)
        above = {kept.job.priority + 1 for kept in ahead if kept.job.queue == job.queue}
        priorities = sorted({bounds.nearest(job.priority), *above} - {job.priority})
        return Surroundings(
            classes=tuple(sorted({kind.gpu_class for kind in inventory.kinds})),
            zones=tuple(sorted(zone for zone in inventory.zones if zone)),
            priorities=tuple(one for one in priorities if bounds.least <= one <= bounds.most),
            workers=self._largest_gang(job),
            deadlines_s=tuple(sorted({_time_left(kept.starts_at, self._moment) for kept in ahead} - {0}, reverse=True)),
        )

    def _largest_gang(self, job: Job) -> int:
        """Where quotas do not count; so a search for fewer workers takes as long for a gang of any size."""
        one = self._resolve(replace(job, workers_min=1, workers_max=max(1, job.workers_max - job.workers_min + 1)))
        if isinstance(one, Refusal):
            return 0
        return max(
            (max_workers(self._current.fit_cache, option.placement_request) for option in one.options), default=0
        )

    def _starts(self, job: Job, changed: Job, ahead: Sequence[KeptFor]) -> bool:
        if self._trials_left <= 0:
            return False
        self._trials_left -= 1
        request = self._resolve(changed)
        if isinstance(request, Refusal) or not self._keeps_its_turn(job, request):
            return False
        if self._finds_place(request):
            return self._in_line(changed)
        open_to_it = [kept.allocation for kept in ahead if self._may_go_before(changed, kept)]
        if not open_to_it:
            return False
        with self._current.trial():
            for allocation in open_to_it:
                self._current.release(allocation)
            return self._finds_place(request) and self._in_line(changed)

    def _may_go_before(self, changed: Job, kept: KeptFor) -> bool:
        """The changed job will have ended in time, or has its turn before the other."""
        runtime_s = changed.max_runtime_s or (None if kept.is_collected else changed.expected_runtime_s)
        if runtime_s is not None and not self._moment.is_past(kept.starts_at - runtime_s):
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

    def _more_quota(self, job: Job, refusal: Refusal) -> Change | None:
        """The limit that binds, raised by what is missing, where that is the only thing in the way."""
        request = self._resolve(job)
        if isinstance(request, Refusal):
            return None
        facts = dict(refusal.evidence)
        asked, available = int(facts["asked"]), int(facts["available"])
        limit = BindingLimit(str(facts["metric"]), str(facts["scope"]), int(facts["limit"]), int(facts["used"]))
        missing = asked - available
        with self._current.usage.with_more(request.queue, limit, missing) as raised:
            if not raised or not self._finds_place(request):
                return None
        amount = format_mib(missing) if limit.metric == "GPU memory" else f"{format_gpus(missing)} GPU"
        return Change(f"{limit.scope} had {amount} more")


def _time_left(until: float, moment: Moment) -> int:
    """Whole seconds, and of a longer time tens of seconds or minutes, rounded down: who is advised has some time to
    follow, and the advice is not another one each second."""
    left = max(0, int(until - moment.unnoted))
    rounded = next((left - left % unit for least, unit in _UNITS if left >= least), left)
    moment.is_past(until - rounded)
    return rounded


_UNITS = ((600, 60), (60, 10))
"""(from so many seconds on, rounded down to these)."""
