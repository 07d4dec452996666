"""One turn of a pending job: it is admitted if it fits now, nominated if it fits after evictions, else refused.

Equal requests share one search and one refusal in a cycle (Kueue calls this equivalence hashing): space only becomes
less while turns are taken, so a request that found no place finds none later either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from cotenant.core.actions.backfill import Reservation, Reservations
from cotenant.core.actions.collect import Collection, Holders, collect, holders_of
from cotenant.core.actions.evict import departures, find_victims
from cotenant.core.actions.nominations import is_free, take
from cotenant.core.actions.protection import ProtectionSearch
from cotenant.core.actions.tenure import Tenures
from cotenant.core.actions.victims import CandidateFinder
from cotenant.core.allocation.allocation import AllocationBatch
from cotenant.core.allocation.eviction_candidate import CandidateList
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.booked_places import BookedPlaces
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry
from cotenant.core.cycle.search import PlacementResult, find
from cotenant.core.explain.behind_bookings import behind_bookings, starts_with_booking
from cotenant.core.explain.forecast import Forecast, endings_of
from cotenant.core.explain.pending_reason import protected, sparing
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import WAITING_FOR_ENDINGS, Reason, Refusal
from cotenant.core.queueing.fair_share import within_guarantee

Explain: TypeAlias = Callable[[Occupancy, Request, Sequence[JobKey]], Refusal]
"""(occupancy, request that finds no place there, jobs for which places are reserved) → the reason to wait."""

_TRIES: Final = 4
"""Requests of overdue jobs for which a place of a class is sought in vain in one cycle. Each takes milliseconds in a
large cluster. Jobs behind them have no latest start, because the first has none."""


class Admission:
    """The turns of one cycle: of a decision, or of a future that is played from it (`outlook`)."""

    __slots__ = (
        "_candidates",
        "_cycle",
        "_explain",
        "_guarantee_waits",
        "_refusals",
        "_tries",
        "_unreserved",
        "_waiting",
        "booked",
        "collections",
        "gave",
        "reservations",
        "tenures",
        "usage",
    )

    def __init__(self, cycle: Cycle, booked: BookedPlaces, explain: Explain) -> None:
        """`booked`: bookings for which GPUs are kept already."""
        self._cycle = cycle
        self._candidates = CandidateFinder(cycle.running, cycle.inventory, cycle.rules, cycle.service)
        self.tenures = Tenures(cycle.rules)
        self.collections: dict[JobKey, Collection] = {}
        """Jobs for which GPUs are reserved."""
        self.booked = booked
        self.reservations = Reservations(cycle.moment, cycle.policy.reserve_within_s, booked)
        self._refusals: dict[Request, Refusal] = {}
        """Requests that found no place, in the order of their first turn."""
        self._unreserved: set[Request] = set()
        """Requests of overdue jobs for which no place can be reserved: of equal ones, the first has waited longest."""
        self._tries: Counter[str] = Counter()
        """Class of GPUs → number of these requests."""
        self._waiting: list[tuple[Entry, Request]] = []
        self._explain = explain
        self._guarantee_waits = False
        """True once a job inside its guarantee found no place in this cycle."""
        self.gave = False
        """True once a turn took a place or was promised one, so that usage differs from what it was before the
        turns."""
        self.usage = cycle.accounts.current.usage
        """Usage when the usual turns began, including what is reserved for overdue jobs."""

    def try_admit(self, entry: Entry, request: Request) -> None:
        """One turn. Changes the cycle: the entry takes its place, and the jobs that leave for it are evicted."""
        job, current, is_refused = entry.job, self._cycle.accounts.current, request in self._refusals
        with self.booked.opened_to(request.queue):
            if not is_refused and (result := find(current, request, request.workers)) is not None:
                self._cycle.admit(entry, result)
            # Asked for each job: jobs with equal requests may declare different run times.
            elif (backfill := self.reservations.backfill(job, request, current)) is not None:
                self._cycle.admit(entry, backfill.result, backfill.ends_at)
            elif not is_refused and (result := self._fit_after_evictions(job, request)) is not None:
                take(self._cycle, entry, result)
            else:
                self._refuse(entry, request)
                return
            self.gave = True

    def collect_for(self, entry: Entry, request: Request) -> bool:
        """The turn of an overdue job; True if it got a place or one is now reserved for it.

        False if GPUs of its class are reserved for another job already: then it takes its turn in the usual order.
        """
        job, cycle = entry.job, self._cycle
        with self.booked.opened_to(request.queue):
            if self.is_spoken_for(request):
                return False
            if (result := find(cycle.accounts.current, request, request.workers)) is not None:
                cycle.admit(entry, result)
                self.gave = True
                return True
            result = self._fit_after_evictions(job, request)
            if result is None:
                parts = self._candidates.parts
                result = self._evict(job, request, self.tenures.candidates(job, request, cycle.running, parts))
            if result is None:
                is_reserved = self._collect(entry, request)
                if not is_reserved:
                    self._unreserved.add(request)
                    self._tries.update(request.classes)
                return is_reserved
            take(self._cycle, entry, result)
            self.gave = True
            return True

    def is_refused(self, request: Request) -> bool:
        """The request found no place in this cycle; only a backfill may still start a job that makes it."""
        return request in self._refusals

    def is_spoken_for(self, request: Request) -> bool:
        """No place will be reserved for the request any more in this cycle: it was refused, no place can be, none was
        found for several that came before it, or GPUs of its class are reserved for another job."""
        refused = request in self._refusals or request in self._unreserved
        tried = max((self._tries[name] for name in request.classes), default=0) >= _TRIES
        return refused or tried or self.reservations.is_claimed(request)

    def release_reservations(self) -> list[Reservation]:
        """End the reservations for backfill, and return all reservations. Places of overdue jobs stay reserved.

        What follows the turns (moves, growth) takes nothing that cannot be taken back.
        """
        ended = self.reservations.all()
        for reservation in ended:
            if not reservation.is_collected:
                self._cycle.accounts.release(reservation.allocation)
        self.reservations.clear()
        return ended

    def release_collected(self) -> None:
        """Give back the places reserved for overdue jobs, once nothing more is handed out."""
        for collection in self.collections.values():
            self._cycle.accounts.release(collection.reservation.allocation)
        self.collections.clear()

    def waiting(self) -> list[tuple[Entry, Request]]:
        """Waiting entries in the order of their turns, with their requests. Each is told its reason."""
        protection = ProtectionSearch(self._cycle)
        for request in self._first_kinds():
            if (until := request.job.evicts_from) is not None and self._spares(request.job):
                self._refusals[request] = sparing(self._refusals[request], until)
            elif (binding := protection.binding(request, guarantee_waits=self._guarantee_waits)) is not None:
                self._refusals[request] = protected(self._refusals[request], binding)
        for entry, request in self._waiting:
            refusal, collection = self._refusals[request], self.collections.get(entry.job.key)
            entry.wait(refusal if collection is None else collection.explain(refusal))
        return self._waiting

    def declared_starts(self) -> dict[JobKey, float]:
        """Waiting job → its start if jobs end as they declare. Worked out for the first `Policy.forecasts` requests."""
        forecast, by_request = self._new_forecast(), dict[Request, float]()
        for request in self._first_kinds():
            start, booked_from = forecast.start_of(request), starts_with_booking(self.booked, request)
            known = [at for at in (None if start is None else start.at, booked_from) if at is not None]
            by_request.update({request: min(known)} if known else {})
        starts = {one.job.key: by_request[request] for one, request in self._waiting if request in by_request}
        return starts | {key: one.reservation.starts_at for key, one in self.collections.items()}

    def _first_kinds(self) -> list[Request]:
        """Requests that wait for endings, as many as the policy looks at in a cycle."""
        wanted = [request for request, refusal in self._refusals.items() if refusal.reason in WAITING_FOR_ENDINGS]
        return wanted[: self._cycle.policy.forecasts]

    def _fit_after_evictions(self, job: Job, request: Request) -> PlacementResult | None:
        """A place given back by jobs that are leaving already, or that are now asked to leave."""
        accounts = self._cycle.accounts
        after = accounts.after_evictions
        if after is not None and (result := find(after, request, request.workers)) is not None:
            return result
        usage, above = accounts.open_after_evictions().usage, self._cycle.service.evicts_above(job)
        candidates = self._candidates.candidates(request, usage, guarantee_waits=self._guarantee_waits, above=above)
        return self._evict(job, request, candidates)

    def _spares(self, job: Job) -> bool:
        """True if nobody is evicted for the job at this moment."""
        return job.evicts_from is not None and not self._cycle.moment.has_come(job.evicts_from)

    def _evict(self, job: Job, request: Request, candidates: CandidateList) -> PlacementResult | None:
        if self._spares(job):
            return None
        outcome, after = self._cycle.outcome, self._cycle.accounts.open_after_evictions()
        found = find_victims(after, request, candidates, outcome, self._cycle.moment)
        if found is None:
            return None
        # A place may be free although none was found: quotas are searched with the largest charge of a class, and on a
        # GPU with more memory a share is charged less.
        if not is_free(self._cycle.accounts.current, job, found.result):
            for victim in found.victims:
                self._cycle.accounts.depart(victim.job.key, victim.allocation)
            outcome.add(departures(found, job, outcome.shrunk))
        return found.result

    def _collect(self, entry: Entry, request: Request) -> bool:
        """Reserve the place where the entry will start first; False if no job's end makes room for it."""
        current = self._cycle.accounts.current
        refusal = self._explain(current, request, ())
        occupancy = self._cycle.accounts.open_after_evictions()
        lacks_quota = refusal.reason is Reason.WAITING_FOR_QUOTA and not refusal.waits_for_space
        is_entitled = self.tenures.is_entitled(request)
        of_quota = lacks_quota and not is_entitled
        if not (is_entitled or of_quota or self.tenures.has_room(request, current.usage)):
            return False
        holders = self._holders(request)
        collection = collect(occupancy, entry.job, request, holders, self.tenures, of_quota=of_quota)
        if collection is None:
            return False
        self._refusals[request] = refusal
        self._guarantee_waits |= within_guarantee(current.usage, request, request.queue)
        self.reservations.collect(collection.reservation)
        self._cycle.accounts.allocate(collection.reservation.allocation)
        self.collections[entry.job.key] = collection
        entry.wait(refusal)
        self._waiting.append((entry, request))
        return True

    def _holders(self, request: Request) -> Holders:
        """Jobs that run and are not leaving, jobs that start in this cycle, and jobs that start once others have
        left."""
        cycle = self._cycle
        table = cycle.running.holders
        rows = table.staying((*cycle.outcome.evictions, *cycle.outcome.resizes))
        return holders_of(request, self.tenures, table, rows, (*cycle.started, *cycle.nominated))

    def _refuse(self, entry: Entry, request: Request) -> None:
        """Refuse the entry. Equal requests share one reason; for the first of them a place may be reserved."""
        if request not in self._refusals:
            current = self._cycle.accounts.current
            spares = self._spares(request.job)
            # A job that may never start holds up no evictions of others, and GPUs are reserved for the next one.
            self._guarantee_waits |= not spares and within_guarantee(current.usage, request, request.queue)
            reserved_for = [reservation.job for reservation in self.reservations.all()]
            refusal = self._explain(current, request, reserved_for)
            refusal = self._refusals[request] = behind_bookings(refusal, self.booked, current, request)
            reserve = self.reservations.reserve
            if not spares and (kept := reserve(entry.job, request, refusal, self._new_forecast)) is not None:
                self._cycle.accounts.allocate(kept.allocation)
        entry.wait(self._refusals[request])
        self._waiting.append((entry, request))

    def _new_forecast(self) -> Forecast:
        cycle = self._cycle
        endings = endings_of(cycle.running, cycle.outcome, cycle.started, cycle.moment)
        endings = sorted((*endings, *self.booked.endings()), key=lambda ending: ending[:2])
        ends, batch = [at for at, _, _ in endings], AllocationBatch([held for _, _, held in endings])
        return Forecast(cycle.accounts.open_after_evictions(), ends, batch, cycle.moment.at)  # all endings are later
