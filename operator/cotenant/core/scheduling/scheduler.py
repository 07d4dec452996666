"""`schedule(snapshot, policy) -> Plan`: the table of contents of a decision. Pure: same value in, same plan out.

Kueue takes the head of each queue and leaves placement to the kube-scheduler; KAI-Scheduler runs allocate, reclaim and
preempt one after the other over all jobs. Here every job has one turn, in which it is admitted, is nominated for a
place that becomes free, or gets the reason why it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from cotenant.core.actions import elastic
from cotenant.core.actions.consolidate import Consolidation, beneficiaries, evictions_of
from cotenant.core.actions.nominations import inventory_incomplete, kept_place, lost_jobs, take
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.booked_places import BookedPlaces
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry
from cotenant.core.cycle.outcome import Departures
from cotenant.core.cycle.search import find
from cotenant.core.explain.inadmissible import RequestResolver, as_used_now
from cotenant.core.explain.pending_reason import explain, waiting_for_eviction
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import BookedGpus, Plan, Refusal
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.queueing.fair_share import DominantShares, past_shares, within_guarantee
from cotenant.core.queueing.line import Line, form_lines, outside_lines
from cotenant.core.queueing.order import QueueOrder, order_in_queue
from cotenant.core.quota.usage import Usage
from cotenant.core.scheduling.admission import Admission
from cotenant.core.scheduling.advice import Told, tell
from cotenant.core.scheduling.decision import Decision
from cotenant.core.scheduling.known import open_cycle
from cotenant.core.scheduling.overdue import give_turns, split_overdue
from cotenant.core.scheduling.requested_moves import move_as_asked
from cotenant.core.scheduling.turns_taken import TurnsTaken
from cotenant.core.snapshot.snapshot import Snapshot

Following: TypeAlias = Callable[[Entry, Request], Entry | None]


def schedule(snapshot: Snapshot, policy: Policy = DEFAULT) -> Plan:
    """Decide one cycle: who starts where, who leaves for whom, and why every other job waits."""
    return decide(snapshot, policy).plan


def place(snapshot: Snapshot, policy: Policy = DEFAULT) -> Plan:
    """The same without latest starts and advice, for questions that ask for neither."""
    return decide(snapshot, policy, tells=False).plan


def decide(
    snapshot: Snapshot, policy: Policy = DEFAULT, last: Decision | None = None, *, tells: bool = True
) -> Decision:
    """The same, continuing from the last decision, which is returned again while it still holds."""
    if last is not None and last.holds_for(snapshot, policy):
        return last.at(snapshot.now)
    # 1. Count who holds what. Right after a start, decide nothing before all that running jobs hold is observed.
    cycle, requests = open_cycle(snapshot, policy, None if last is None else last.known)
    if (incomplete := inventory_incomplete(snapshot, policy, cycle.running, cycle.moment)) is not None:
        return Decision.of(cycle, requests, hold_cycle(cycle, requests, incomplete))
    # 2. Give out what there is.
    turns = take_turns(cycle, requests)
    # 3. Tell waiting jobs their latest start, and what would start them now.
    told = tell(turns) if tells else Told()
    plan = told.added_to(turns.plan())
    # 4. Note what the decision follows from, so that it can be reused.
    return Decision.of(cycle, requests, plan, turns.standings(plan), told.ends(cycle.entries))


def take_turns(cycle: Cycle, requests: RequestResolver) -> TurnsTaken:
    """Admit, evict, nominate and move until nothing more is to be given out; all others wait with a reason."""
    # 1. Requeue gangs that lost a node or a GPU; keep promised and booked places; move jobs as administrators asked.
    evict_lost(cycle)
    entries = renominate(cycle, requests, keep_nominations(cycle, requests))
    booked = BookedPlaces(cycle)
    booked.keep()
    move_as_asked(cycle, requests.resolve)
    # 2. Leave out entries beyond the bounds of their queue; reject what can never start, once per kind of request.
    lines = form_lines(cycle.tree, (entry.job for entry in entries), requests.least_milli)
    feasible = reject_infeasible(requests, in_line(lines, entries), cycle.accounts.current.usage)
    # 3. Give every entry its turn, in the order of guarantees and shares as they stand after the turn before.
    shares = DominantShares(cycle.tree, past_shares(cycle.snapshot, cycle.policy))
    admission = Admission(cycle, booked, explain)
    for _ in give_turns(cycle, admission, *split_overdue(admission.tenures, feasible), order(cycle, shares, feasible)):
        pass
    # 4. End reservations, except those of overdue jobs. Move jobs aside for waiting ones; let elastic jobs grow.
    reservations, waiting = admission.release_reservations(), admission.waiting()
    consolidate(cycle, requests, admission, waiting)
    grow(cycle, requests, booked)
    jobs = [entry.job for entry, _ in feasible]
    return TurnsTaken(cycle, requests, lines, admission, reservations, waiting, shares, jobs)


def hold_cycle(cycle: Cycle, requests: RequestResolver, reason: Refusal) -> Plan:
    """No job starts or leaves, and every nomination stays."""
    lines = form_lines(cycle.tree, (entry.job for entry in cycle.entries), requests.least_milli)
    for entry, _ in reject_infeasible(requests, in_line(lines, cycle.entries), cycle.accounts.current.usage):
        entry.wait(reason)
    cycle.outcome.moves.update(cycle.snapshot.nominations)
    booked = {name: BookedGpus(gpus, 0) for name, gpus in cycle.snapshot.booked}
    return replace(cycle.outcome.plan(cycle.entries), booked=booked)


def evict_lost(cycle: Cycle) -> None:
    lost = lost_jobs(cycle.running, cycle.inventory, cycle.moment, cycle.policy.missing_grace_s)
    cycle.outcome.add(Departures(tuple(lost)))
    cycle.accounts.expect_to_leave(cycle.running.by_key[eviction.job] for eviction in lost)


def keep_nominations(cycle: Cycle, requests: RequestResolver) -> list[Entry]:
    """Admit or nominate again the jobs that have a nominated place; returns the other entries, in order of key."""
    nominated = dict(cycle.snapshot.nominations)
    for key in sorted(nominated):
        job = cycle.running.by_key.get(key)
        if job is not None and job.evicting:
            place = kept_place(cycle.accounts, job, requests.resolve(job), nominated[key])
            if place is not None:
                cycle.nominate_move(job, place)

    def keeps(entry: Entry) -> bool:
        job, placement = entry.job, nominated.get(entry.job.key)
        if placement is None:
            return False
        request = requests.resolve(job)
        entry.request = None if isinstance(request, Refusal) else request
        place = kept_place(cycle.accounts, job, request, placement)
        if place is not None:
            take(cycle, entry, place)
        return place is not None

    return [entry for entry in sorted(cycle.entries, key=lambda entry: entry.job.key) if not keeps(entry)]


def renominate(cycle: Cycle, requests: RequestResolver, entries: list[Entry]) -> list[Entry]:
    """New places for jobs that an earlier leader had nominated, by priority and age; returns the other entries."""
    nominated = [entry for entry in entries if entry.job.key in cycle.snapshot.nominated_earlier]
    settled = set()
    for entry in sorted(nominated, key=lambda entry: order_in_queue(entry.job)):
        request = requests.resolve(entry.job)
        if isinstance(request, Refusal):
            continue
        entry.request, after = request, cycle.accounts.after_evictions
        place = find(cycle.accounts.current, request, request.workers)
        if place is None and after is not None:
            place = find(after, request, request.workers)
        if place is not None:
            take(cycle, entry, place)
            settled.add(entry.job.key)
    return [entry for entry in entries if entry.job.key not in settled]


def in_line(lines: Mapping[str, Line], entries: Iterable[Entry]) -> list[Entry]:
    """Entries that take part in this cycle. The others are beyond the bounds of their queue, and wait."""
    inside, outside = [], outside_lines(lines)
    for entry in entries:
        if (refusal := outside.get(entry.job.key)) is not None:
            entry.wait(refusal)
        else:
            inside.append(entry)
    return inside


def reject_infeasible(requests: RequestResolver, entries: Iterable[Entry], usage: Usage) -> list[tuple[Entry, Request]]:
    """Entries that could ever start, with their requests; the others are rejected with the reason."""
    feasible, stated = [], dict[Refusal, Refusal]()
    for entry in entries:
        resolved = requests.resolve(entry.job)
        if isinstance(resolved, Refusal):
            if (said := stated.get(resolved)) is None:
                said = stated[resolved] = as_used_now(resolved, usage)
            entry.reject(said)
        else:
            entry.request = resolved
            feasible.append((entry, resolved))
    return feasible


def order(
    cycle: Cycle, shares: DominantShares, feasible: Iterable[tuple[Entry, Request]], following: Following | None = None
) -> Iterator[tuple[Entry, Request]]:
    """Order of turns: guarantee → share → priority → age → key, by the usage at each turn (see `queueing.order`).

    `following`: after a turn, the next entry that asks for the same, if `feasible` has only the first of each kind.
    """
    by_key = {entry.job.key: (entry, request) for entry, request in feasible}
    usage = cycle.accounts.current.usage

    def is_within_guarantee(queue: int, job: Job) -> bool:
        return within_guarantee(usage, by_key[job.key][1], queue)

    jobs = [entry.job for entry, _ in by_key.values()]
    queues = QueueOrder(cycle.tree, usage, shares, is_within_guarantee, jobs, turn=cycle.service.turn)
    for job in queues:
        entry, request = by_key[job.key]
        yield entry, request
        if following is not None and (other := following(entry, request)) is not None:
            by_key[other.job.key] = other, request
            queues.insert(other.job)


def consolidate(
    cycle: Cycle, requests: RequestResolver, admission: Admission, waiting: Iterable[tuple[Entry, Request]]
) -> None:
    """Move jobs aside for the first waiting entries that can start then, if the move is worth it."""
    consolidation = Consolidation(cycle, requests.resolve)
    if not consolidation.may_move:
        return
    starts = admission.declared_starts()
    for entry, request in beneficiaries(waiting, cycle.policy.forecasts):
        move = consolidation.find_move(starts.get(entry.job.key), request, cycle.accounts.open_after_evictions)
        if move is None:
            continue
        for job in move.jobs:
            cycle.accounts.depart(job.key, cycle.running.allocations[job.key])
        cycle.outcome.add(Departures(evictions_of(move, entry.job)))
        cycle.nominate(entry, move.result, waiting_for_eviction(move.result.placement))
        for job, place in zip(move.jobs, move.places, strict=True):
            cycle.nominate_move(job, place)


def grow(cycle: Cycle, requests: RequestResolver, booked: BookedPlaces) -> None:
    """Elastic jobs grow into what is left: highest priority first, then the oldest, each as far as it may."""
    entries = {entry.job.key: entry for entry in cycle.entries}
    for job in elastic.growth_order((*cycle.running.elastic, *(entry.job for entry in cycle.entries))):
        entry = entries.get(job.key)
        held = job.placement if cycle.stays(job) else None
        placement = held if entry is None else entry.admitted_to
        if placement is None or placement.workers >= job.workers_max:
            continue
        request = requests.resolve(job)
        if isinstance(request, Refusal):
            continue
        with booked.opened_to(request.queue):
            growth = elastic.grow(job, placement, request, cycle.accounts.current)
            if growth is None:
                continue
            cycle.accounts.allocate(growth.allocation)
        if entry is not None:
            entry.admit(growth.placement, entry.backfilled_until)
        else:
            cycle.outcome.add(Departures((), (elastic.resize(job.key, growth),)))
