"""The turns of one cycle of a play. `Admission` and `give_turns` are the ones that decide in production.

A play opens a `Cycle` on its own cluster, gives turns in it, and carries out what they decided. Of equal jobs only the
first takes a turn: if it finds no place, the others find none either, except by backfill. Refusals have no message.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from math import inf

from cotenant.core.allocation.request import Request
from cotenant.core.cycle.entry import Entry, EntryOutcome
from cotenant.core.explain.pending_reason import explain_briefly
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.outlook.played_cluster import LEAVING_S, PlayedCluster
from cotenant.core.queueing.order import order_in_queue
from cotenant.core.scheduling.admission import Admission
from cotenant.core.scheduling.overdue import give_turns, split_overdue
from cotenant.core.scheduling.scheduler import order


class Turns:
    """One cycle of a play, and the turns of jobs that arrive before the next ending. `close` ends its reservations."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self._cluster = cluster
        self._cycle = cluster.open_cycle()
        self._admission = Admission(self._cycle, cluster.booked, explain_briefly)
        self._entries: dict[JobKey, Entry] = {}
        self._started = self._nominated = 0
        """Jobs of the cycle that were started or nominated, and carried out."""
        self._too_long: dict[Request, float] = {}
        """Request → shortest declared run time with which a job of it could not be backfilled."""

    @property
    def evicted(self) -> bool:
        """Jobs had to leave or to shrink, so others may have a turn again."""
        return bool(self._cycle.outcome.departures)

    def of_all(self) -> Iterator[bool]:
        """Turns until no job starts any more, and then the starts, one at a time."""
        cluster = self._cluster
        waiting = ((self._entry(job), request) for request, jobs in cluster.waiting.items() for job in jobs)
        overdue, coming = split_overdue(self._admission.tenures, waiting)
        heads = [(self._entry(self._first(jobs)), request) for request, jobs in cluster.waiting.items()]
        ordered = order(self._cycle, cluster.shares(), heads, self._following)
        for _ in give_turns(self._cycle, self._admission, overdue, coming, ordered):
            yield True
        yield from self._carry_out()

    def of_one(self, job: Job, request: Request) -> bool:
        """The turn of a job that has just come; false if all need a turn again."""
        reserved = (self._entries.get(kept.job) for kept in self._admission.reservations.all() if not kept.is_collected)
        if self._cycle.moment.until <= self._cluster.now or any(
            one is not None and not self._is_behind(job, one.job) for one in reserved
        ):
            return False
        self._admission.try_admit(self._entry(job), request)
        for _ in self._carry_out():
            pass
        return not self.evicted

    def close(self) -> None:
        self._admission.release_reservations()
        self._admission.release_collected()

    def _entry(self, job: Job) -> Entry:
        return self._entries.setdefault(job.key, Entry(job))

    def _carry_out(self) -> Iterator[bool]:
        """Carry out the evictions, resizes and starts of the cycle. All happen at once, except that nominated jobs wait
        `LEAVING_S` if jobs were leaving before the play began."""
        cluster, cycle = self._cluster, self._cycle
        cluster.evict(cycle.outcome.evictions)
        for resize in cycle.outcome.resizes.values():
            cluster.shrink(resize)
        later = LEAVING_S if cycle.running.leaving else 0.0
        starts = [(one, 0.0) for one in cycle.started[self._started :]]
        starts += [(one, later) for one in cycle.nominated[self._nominated :]]
        for (job, allocation), delay_s in starts:
            cluster.start(self._entries[job.key], allocation, cluster.now + delay_s)
            yield True
        self._started, self._nominated = len(cycle.started), len(cycle.nominated)

    def _first(self, jobs: Iterable[Job]) -> Job:
        """The one of equal jobs that is next."""
        return min(jobs, key=self._cycle.service.turn)

    def _following(self, entry: Entry, request: Request) -> Entry | None:
        """The next of equal jobs to take a turn. If the request was refused, the next that may be backfilled."""
        jobs = self._cluster.waiting[request]
        runtime_s = entry.job.max_runtime_s or entry.job.expected_runtime_s
        if not self._admission.is_refused(request):
            rest = [job for job in jobs if self._is_undecided(job)]
            return self._entry(self._first(rest)) if rest else None
        if runtime_s is not None and entry.outcome is EntryOutcome.WAITING:
            self._too_long[request] = min(runtime_s, self._too_long.get(request, inf))
        kept_until = [kept.starts_at for kept in self._admission.reservations.all()]
        kept_until += [place.booking.starts_at for place in self._cluster.booked.places]
        last = max(kept_until, default=0.0) - self._cluster.now
        too_long = self._too_long.get(request, inf)
        for other in jobs[bisect_right(jobs, order_in_queue(entry.job), key=order_in_queue) :] if last > 0 else ():
            runtime_s = other.max_runtime_s or other.expected_runtime_s
            if runtime_s is not None and runtime_s <= last and runtime_s < too_long and self._is_undecided(other):
                return self._entry(other)
        return None

    def _is_undecided(self, job: Job) -> bool:
        entry = self._entries.get(job.key)
        return entry is None or entry.outcome is EntryOutcome.UNDECIDED

    def _is_behind(self, job: Job, other: Job) -> bool:
        turn = self._cycle.service.turn
        return other.queue == job.queue and turn(other) < turn(job)
