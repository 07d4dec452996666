"""What waiting jobs are told besides their reason: their latest start, and the smallest change that would start them.

A second function, of the state in which the turns of a cycle have left it. It decides nothing, and changes nothing
except in trials that are rolled back. Questions that only ask who starts do without it (`scheduler.place`). Equal jobs
behind the same reserved places share one search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TypeAlias

from cotenant.core.actions.backfill import Reservation
from cotenant.core.actions.start_bounds import waiting_order
from cotenant.core.actions.tenure import Tenures
from cotenant.core.allocation.request import Request, RequestKey, request_key
from cotenant.core.cycle.booked_places import BookedPlaces
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry, EntryOutcome
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.explain.smallest_change import ChangeSearch, KeptFor, OverdueTurn
from cotenant.core.explain.spec_change import SpecChange
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import NO_BOUND, Plan, Refusal, StartBound, Verdict
from cotenant.core.queueing.fair_share import DominantShares
from cotenant.core.queueing.line import Line
from cotenant.core.scheduling.admission import Admission
from cotenant.core.scheduling.decision import Standings
from cotenant.core.scheduling.overdue import bounds_of

_NODES = 1_000_000
"""Bound on the work of one cycle: trials times nodes."""

_Kind: TypeAlias = tuple[RequestKey, int, int | None, int | None, Refusal, int, tuple[int, int]]
"""What advice depends on: request, workers, run times, reason, the number of places that are reserved ahead, and how
many of those are for jobs that come after this one: see `_before`."""


@dataclass(frozen=True, slots=True, eq=False)
class TurnsTaken:
    """A cycle after its last turn: everything that it hands out is handed out."""

    cycle: Cycle
    requests: RequestResolver
    lines: Mapping[str, Line]
    """Queue → its line. Only queues that set bounds for waiting jobs have one."""
    admission: Admission
    booked: BookedPlaces
    reservations: Sequence[Reservation]
    """All that were made while turns were taken."""
    waiting: Sequence[Entry]
    """Entries that had a turn and wait, in the order of their turns."""
    shares: DominantShares
    jobs: Sequence[Job]
    """Jobs that had a turn; `shares` ordered them."""

    def standings(self, plan: Plan) -> Standings | None:
        """None if the plan cannot be reused: it has actions, or a turn changed the shares that ordered later turns."""
        is_quiet = not plan.actions and not self.admission.gave
        return Standings.of(self.shares, self.admission.usage, self.jobs) if is_quiet else None

    def plan(self, told: Told) -> Plan:
        plan = self.cycle.plan()
        verdicts = {key: told.added_to(verdict) for key, verdict in plan.verdicts.items()}
        return replace(plan, verdicts=verdicts, booked=self.booked.found())


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Latest starts and changes, by waiting job. A job for which there is none is left out."""

    bounds: Mapping[JobKey, StartBound] = field(default_factory=dict)
    changes: Mapping[JobKey, SpecChange] = field(default_factory=dict)

    def ends(self, entries: Iterable[Entry]) -> list[tuple[Job, float]]:
        """(job, instant) for each job that is advised to limit its run time so that it ends by that instant."""
        changes = ((one.job, self.changes.get(one.job.key)) for one in entries)
        return [(job, change.ends_by) for job, change in changes if change is not None and change.ends_by is not None]

    def added_to(self, verdict: Verdict) -> Verdict:
        bound, change = self.bounds.get(verdict.job, NO_BOUND), self.changes.get(verdict.job)
        if bound is not NO_BOUND:
            starts_by = bound.at if bound.at < inf else None
            verdict = replace(verdict, starts_by=starts_by, starts_by_basis=bound.basis)
        return verdict if change is None else change.added_to(verdict)


def tell(turns: TurnsTaken) -> Told:
    bounds, current = bounds_of(turns.cycle, turns.admission, turns.waiting), turns.cycle.accounts.current
    with current.trial():
        # A reserved place blocks only jobs that come after it: `ChangeSearch` takes it again for those.
        for collection in turns.admission.collections.values():
            current.release(collection.reservation.allocation)
        for place in turns.booked.places:
            current.release(place.allocation)
        return Told(bounds, _changes(turns))


def _changes(turns: TurnsTaken) -> dict[JobKey, SpecChange]:
    """Waiting job → the change that would start it. At most `Policy.advice` trials are made."""
    cycle, lines = turns.cycle, turns.lines
    search = ChangeSearch(
        cycle.accounts.current,
        turns.requests.resolve,
        lambda changed: changed.queue not in lines or lines[changed.queue].takes(changed),
        partial(_overtaken, turns.admission.tenures),
        turn=cycle.service.turn,
        moment=cycle.moment,
        trials=min(cycle.policy.advice, _NODES // max(1, len(cycle.inventory.nodes))),
    )
    known: dict[_Kind, SpecChange | None] = {}
    found: dict[JobKey, SpecChange] = {}
    for entry, ahead in _behind_kept_places(turns):
        job, reason = entry.job, entry.reason
        if entry.outcome is EntryOutcome.NOMINATED or reason is None or job.queue not in cycle.tree.index:
            continue
        kind = (
            request_key(job), job.workers_max, job.expected_runtime_s, job.max_runtime_s, reason, len(ahead),
            _before(turns, job, ahead),
        )  # fmt: skip
        if kind not in known:
            known[kind] = search.smallest_change(job, reason, ahead)
        if (change := known[kind]) is not None:
            found[job.key] = change
    search.close()
    return found


def _behind_kept_places(turns: TurnsTaken) -> Iterator[tuple[Entry, Sequence[KeptFor]]]:
    """Waiting entries, each with the places that were reserved when its turn came. Then entries that can never start as
    written: they took no turn, and get all reserved places."""
    kept = {one.job: one for one in turns.reservations}
    ahead: tuple[KeptFor, ...] = tuple(
        KeptFor(place.booking.starts_at, place.allocation) for place in turns.booked.places if place.allocation.nodes
    )
    claimed: set[str] = set()
    for entry in turns.waiting:
        yield entry, ahead
        if (collection := turns.admission.collections.get(entry.job.key)) is not None and entry.request is not None:
            starts_at = -inf if collection.of_quota else collection.reservation.starts_at
            overdue = _overdue_turn(turns.admission.tenures, entry.job, entry.request)
            place = KeptFor(starts_at, collection.reservation.allocation, None, overdue, frozenset(claimed))
            ahead = (*ahead, place)
        elif (reservation := kept.get(entry.job.key)) is not None:
            ahead = (*ahead, KeptFor(reservation.starts_at, reservation.allocation, entry.job))
        if entry.request is not None and entry.reason is not None and entry.reason.waits_for_space:
            claimed.update(entry.request.classes)
    yield from ((entry, ahead) for entry in turns.cycle.entries if entry.outcome is EntryOutcome.INADMISSIBLE)


def _overdue_turn(tenures: Tenures, job: Job, request: Request) -> OverdueTurn | None:
    """None if the job is not overdue."""
    return (not tenures.is_entitled(request), *waiting_order(job)) if tenures.is_overdue(job) else None


def _overtaken(tenures: Tenures, job: Job, request: Request, ahead: Sequence[KeptFor]) -> list[KeptFor]:
    """Places of overdue jobs whose turns come after the turn of this job, if it is overdue and makes this request.

    None if something may have been reserved in its classes before: then it has no early turn (`Admission.collect_for`).
    """
    overdue = [(kept.turn, kept) for kept in ahead if kept.turn is not None]
    turn = _overdue_turn(tenures, job, request) if overdue else None
    after = [kept for theirs, kept in overdue if turn is not None and turn < theirs]
    if not after:
        return []
    if tenures.is_entitled(request):
        claimed = {name for kept in ahead if kept.turn is not None and kept not in after for name in _classes_of(kept)}
    else:
        claimed = set(after[0].claimed)
    return after if claimed.isdisjoint(request.classes) else []


def _classes_of(kept: KeptFor) -> list[str]:
    return [gpu_class for (gpu_class, _), _ in kept.allocation.charge.amounts] if kept.allocation.nodes else []


def _before(turns: TurnsTaken, job: Job, ahead: Sequence[KeptFor]) -> tuple[int, int]:
    """Jobs with places in `ahead` that come after this one: in its queue; in the order of waits, if it is overdue."""
    tenures, turn = turns.admission.tenures, turns.cycle.service.turn
    rivals = [kept.job for kept in ahead if kept.job is not None and kept.job.queue == job.queue]
    overdue = [kept.turn[1:] for kept in ahead if kept.turn is not None]
    waits = sum(waiting_order(job) < wait for wait in overdue) if overdue and tenures.is_overdue(job) else -1
    return sum(turn(job) < turn(rival) for rival in rivals), waits
