"""The smallest change of each waiting job, or of its quota, with which this cycle would have started it.

Each change of the catalogue is tried: the changed job is resolved like every other, and must find a place in what is
left after *all* turns, without using a place that is reserved for a job which may come before it. At its own turn it
would have found at least as much room, because room only shrinks during the turns. So the advice holds whether it is
followed in this cycle or in the next one, if nothing else happens meanwhile. Scores do not depend on an edit
(`Snapshot.demand_history`), so no other job's place moves.

A job that will have ended before a reserved place is taken may use that place, and all that are taken later. Why all
this holds: docs/design/0006-scheduling-core.md#proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from cotenant.core.actions.backfill import declares_to_end_by
from cotenant.core.actions.tenure import waiting_order
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request, RequestKey, kinds_of, request_key
from cotenant.core.cycle.entry import EntryOutcome
from cotenant.core.cycle.gallop import first_true
from cotenant.core.cycle.search import find, fits
from cotenant.core.explain.spec_changes import AmountRange, Kind, SpecChange, Surroundings, catalogue, told_seconds
from cotenant.core.model.formatting import format_amount
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement import BestFit
from cotenant.core.placement.gang import max_workers
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.queueing.service import Turn
from cotenant.core.quota.headroom import raised_limit
from cotenant.core.scheduling.turns_taken import PlaceAhead, TurnsTaken, overdue_turn

_NO_CHANGE_HELPS: Final = frozenset(
    {Reason.QUEUE_NOT_FOUND, Reason.NAMESPACE_NOT_SERVED, Reason.BUDGET_SPENT, Reason.TOO_MANY_PENDING}
)
_NODES: Final = 1_000_000
"""Bound on the work of one cycle: trials times nodes."""
_SHORTEST_S: Final = 60
"""Shorter run times are not advised: hardly any program starts and does something in less."""

_Ahead: TypeAlias = Sequence[PlaceAhead]
_Question: TypeAlias = tuple[RequestKey, int, int | None, int | None, Refusal, int, tuple[int, int]]
"""What the answer depends on: request, workers, run times, reason, the number of places ahead, and how many of those
are for jobs that come after this one: see `_before`."""


def smallest_changes(turns: TurnsTaken) -> dict[JobKey, SpecChange]:
    """Waiting job → the change that would start it. At most `Policy.advice` trials are made.

    No reserved place is allocated any more. Changes what is held only in trials that are rolled back.
    """
    search, tree = ChangeSearch(turns), turns.cycle.tree
    found: dict[JobKey, SpecChange] = {}
    for entry, ahead in turns.places_ahead():
        job, reason = entry.job, entry.reason
        if entry.outcome is EntryOutcome.NOMINATED or reason is None or job.queue not in tree.index:
            continue
        if (change := search.smallest_change(job, reason, ahead)) is not None:
            found[job.key] = change
    search.close()
    return found


class ChangeSearch:
    """Changes of waiting jobs, tried on the occupancy that the turns have left. `close` leaves it as it was."""

    __slots__ = ("_ahead", "_answers", "_by_fit", "_current", "_moment", "_trials", "_trials_left", "_turns")

    def __init__(self, turns: TurnsTaken) -> None:
        cycle = turns.cycle
        self._turns, self._current, self._moment = turns, cycle.accounts.current, cycle.moment
        self._by_fit = Occupancy(self._current.ledger, self._current.usage, BestFit())
        """The same occupancy with a cheap scorer: only whether a place exists matters."""
        self._trials_left = min(cycle.policy.advice, _NODES // max(1, len(cycle.inventory.nodes)))
        """Places that are still searched; after that no change is advised."""
        self._trials: dict[tuple[Request, tuple[int, ...]], bool] = {}
        """(request, places that stay reserved) → whether it finds a place."""
        self._answers: dict[_Question, SpecChange | None] = {}
        self._ahead: list[tuple[PlaceAhead, int]] = []
        """Places that are allocated at the moment, each with the mark of the occupancy before it."""

    def smallest_change(self, job: Job, reason: Refusal, ahead: _Ahead) -> SpecChange | None:
        """The change that would start the job at once. Equal jobs behind the same places share one search.

        `ahead`: places that were reserved before its turn.
        """
        question = (
            request_key(job), job.workers_max, job.expected_runtime_s, job.max_runtime_s, reason, len(ahead),
            self._before(job, ahead),
        )  # fmt: skip
        if question not in self._answers:
            self._answers[question] = self._search(job, reason, ahead)
        return self._answers[question]

    def close(self) -> None:
        """Give back all places that are still allocated."""
        self._take(())

    def _before(self, job: Job, ahead: _Ahead) -> tuple[int, int]:
        """Jobs with places ahead that come after this one: in its queue; in the order of waits, if it is overdue."""
        turn = self._turns.cycle.service.turn
        rivals = [place.rival for place in ahead if place.rival is not None and place.rival.queue == job.queue]
        overdue = [place.overdue[1:] for place in ahead if place.overdue is not None]
        is_overdue = bool(overdue) and self._turns.admission.tenures.is_overdue(job)
        waits = sum(waiting_order(job) < wait for wait in overdue) if is_overdue else -1
        return sum(turn(job) < turn(rival) for rival in rivals), waits

    def _search(self, job: Job, reason: Refusal, ahead: _Ahead) -> SpecChange | None:
        """The first change of the catalogue that would start the job, else one of its quota."""
        if reason.reason in _NO_CHANGE_HELPS or self._trials_left <= 0:
            return None
        self._take(ahead)
        for kind in catalogue(job, self._surroundings(job, ahead)):
            if (change := mildest(kind, lambda change: self._starts(job, change, ahead))) is not None:
                return change
        return self._more_quota(job, reason) if reason.reason is Reason.WAITING_FOR_QUOTA else None

    def _take(self, ahead: _Ahead) -> None:
        """Allocate these places. Those that they have in common with the job before stay allocated."""
        same = 0
        while same < min(len(self._ahead), len(ahead)) and self._ahead[same][0] is ahead[same]:
            same += 1
        if same < len(self._ahead):
            self._current.roll_back(self._ahead[same][1])
            del self._ahead[same:]
        for place in ahead[same:]:
            self._ahead.append((place, self._current.mark))
            self._current.allocate(place.allocation)

    # -- what a change may propose ---------------------------------------------------------------------------------

    def _surroundings(self, job: Job, ahead: _Ahead) -> Surroundings:
        inventory, tree = self._current.inventory, self._current.tree
        asked = {kind.resource for kind in kinds_of(job.gpu, inventory)}
        resources: set[str | None] = {*asked} or {inventory.default_resource}
        bounds = tree.priority_bounds(tree.index[job.queue], of_class=False)
        rivals = (place.rival for place in ahead if place.rival is not None and place.rival.queue == job.queue)
        above = {rival.priority + 1 for rival in rivals}
        priorities = sorted({bounds.nearest(job.priority), *above} - {job.priority})
        now = Moment(self._moment.at)
        return Surroundings(
            classes=tuple(sorted({kind.gpu_class for kind in inventory.kinds if kind.resource in resources})),
            any_class=inventory.default_resource in resources,
            zones=tuple(sorted(zone for zone in inventory.zones if zone)),
            priorities=tuple(one for one in priorities if bounds.least <= one <= bounds.most),
            workers=self._largest_gang(job, ahead) if job.workers_min > 1 else 1,
            ends=tuple((at, told_seconds(at, now)) for at in self._ends(job, ahead)),
        )

    def _ends(self, job: Job, ahead: _Ahead) -> list[float]:
        """When places are taken, latest first. Only those before which the job is not sure to have ended."""
        latest = {
            place.starts_at
            for place in ahead
            if not self._ends_before(job, place) and not self._moment.is_past(place.starts_at - _SHORTEST_S)
        }
        return sorted(latest, reverse=True)

    def _largest_gang(self, job: Job, ahead: _Ahead) -> int:
        """Workers that fit if neither quotas nor reserved places counted: an upper bound for the search for fewer
        workers."""
        one = self._turns.requests.resolve(replace(job, workers_min=1, workers_max=1))
        if isinstance(one, Refusal):
            return 0
        with self._current.trial():
            for place in ahead:
                self._current.release(place.allocation)
            return max(max_workers(self._current.fit_cache, option.placement_request) for option in one.options)

    # -- whether a change starts the job ---------------------------------------------------------------------------

    def _starts(self, job: Job, change: SpecChange, ahead: _Ahead) -> bool:
        """True if this cycle and the next one would start the job with the change."""
        changed, lines = change.job, self._turns.lines
        request = self._turns.requests.resolve(changed)
        if isinstance(request, Refusal) or not self._keeps_turn_of(job, request):
            return False
        # Less service and a shorter rest only bring its turn forward.
        turn = (-changed.priority, *self._turns.cycle.service.turn(job)[1:])
        open_to_it = [*self._overtaken(changed, request, ahead)]
        open_to_it += [
            place
            for place in ahead
            if place not in open_to_it
            and (self._ends_before(changed, place, change.ends_by) or self._passes(turn, request, place))
        ]
        question = request, tuple(id(place) for place in ahead if place not in open_to_it)
        found = self._trials.get(question)
        if found is None:
            if self._trials_left <= 0:
                return False
            self._trials_left -= 1
            with self._current.trial():
                for place in open_to_it:
                    self._current.release(place.allocation)
                found = self._trials[question] = self._finds_place(request)
        return found and (changed.queue not in lines or lines[changed.queue].takes(changed))

    def _keeps_turn_of(self, job: Job, changed: Request) -> bool:
        """True if the changed job stays inside each guarantee on its path that this job is inside: so its queue's turn
        comes no later than with this job."""
        before = self._turns.requests.resolve(job)
        if isinstance(before, Refusal):
            return True
        usage, path = self._current.usage, self._current.tree.paths[changed.queue]
        return all(
            within_guarantee(usage, changed, queue) or not within_guarantee(usage, before, queue) for queue in path
        )

    def _overtaken(self, changed: Job, request: Request, ahead: _Ahead) -> _Ahead:
        """Places of overdue jobs whose turns come after the turn of the changed job, if that is overdue too.

        Empty if something may have been reserved in its classes before: then it has no early turn
        (`Admission.collect_for`).
        """
        overdue = [place for place in ahead if place.overdue is not None]
        tenures = self._turns.admission.tenures
        turn = overdue_turn(tenures, changed, request) if overdue else None
        after = [place for place in overdue if turn is not None and place.overdue is not None and turn < place.overdue]
        if not after:
            return []
        if tenures.is_entitled(request):
            earlier = [place.allocation for place in overdue if place not in after and place.allocation.nodes]
            claimed = {name for kept in earlier for (name, _), _ in kept.charge.amounts}
        else:
            claimed = set(after[0].claimed)
        return after if claimed.isdisjoint(request.classes) else []

    def _ends_before(self, job: Job, place: PlaceAhead, ends_by: float | None = None) -> bool:
        """True if the job will have ended when the place is taken. `ends_by`: when it will for sure."""
        if ends_by is not None:
            return ends_by <= place.starts_at
        return declares_to_end_by(job, place.starts_at, self._moment, for_sure=place.rival is None)

    def _passes(self, turn: Turn, changed: Request, place: PlaceAhead) -> bool:
        """True if the place is reserved for a job of the same queue, before which the changed one has its turn."""
        rival = place.rival
        return (
            rival is not None
            and rival.queue == changed.job.queue
            and turn < self._turns.cycle.service.turn(rival)
            and self._keeps_turn_of(rival, changed)
        )

    def _finds_place(self, request: Request) -> bool:
        """`fits` alone is exact, except for jobs that are not preemptible: their place must also lie in a guarantee."""
        return fits(self._current, request) and (
            request.job.preemptible or find(self._by_fit, request, request.workers) is not None
        )

    def _more_quota(self, job: Job, reason: Refusal) -> SpecChange | None:
        """The binding limit, raised by what is missing, if nothing else is in the way."""
        request, limit = self._turns.requests.resolve(job), reason.binding
        if isinstance(request, Refusal) or limit is None:
            return None
        missing = int(dict(reason.evidence)["asked"]) - (limit.limit - limit.used)
        with raised_limit(self._current.usage, limit, missing) as raised:
            if not raised or not self._finds_place(request):
                return None
        return SpecChange(f"{limit.scope} had {format_amount(limit.measure, missing)} more", job)


def mildest(kind: Kind, starts: Callable[[SpecChange], bool]) -> SpecChange | None:
    """The first change that starts the job; of amounts the largest, a multiple of their step if one starts it."""
    if not isinstance(kind, AmountRange):
        return next((change for change in kind if starts(change)), None)
    change, most, least, step = kind.change, kind.most, kind.least, kind.step
    if most < least or (kind.bound is not None and not starts(kind.bound)):
        return None

    def helps(number: int) -> bool:
        return starts(change(number))

    amount = None
    if step == 1:
        amount = _largest(helps, least, most)
    elif helps(least):
        first = -(-least // step)
        steps = _largest(lambda number: helps(number * step), first, most // step)
        amount = _largest(helps, least, min(most, first * step - 1)) if steps is None else steps * step
    return None if amount is None else change(amount)


def _largest(starts: Callable[[int], bool], least: int, most: int) -> int | None:
    """The largest number from `least` to `most` with which the job starts; None if it does not start even with the
    least."""
    if most < least:
        return None
    if starts(most):
        return most
    return first_true(least, most, lambda number: not starts(number)) - 1 if starts(least) else None
