"""Requests that wait only because jobs are protected from eviction: until when, and on how many GPUs.

The search for victims is made once more, with protected jobs among the candidates: first those that may be evicted now,
then the others by the end of their protection. The shortest sufficient prefix of that order ends with the earliest
moment at which evictions suffice, if nothing else changes before.

The result is only told to the tenant, so the search has a `Moment` of its own. The decision itself has already asked
whether each of these jobs is protected, so it is made again when the first of these answers changes.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.actions.evict import cheapest_set
from cotenant.core.actions.victims import CandidateFinder, not_yet_leaving
from cotenant.core.allocation.eviction_candidate import EvictionCandidate
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.explain.pending_reason import Protection
from cotenant.core.model.moment import Moment
from cotenant.core.model.plan import EvictionKind
from cotenant.core.queueing.service import ServiceOrder


class ProtectionSearch:
    """Search for requests that found no place in a cycle; it leaves the cycle as it was."""

    __slots__ = ("_candidates", "_cycle", "_rules", "_service")

    def __init__(self, cycle: Cycle) -> None:
        told = Moment(cycle.moment.at)
        self._cycle = cycle
        self._rules = replace(cycle.rules, moment=told)
        self._service = ServiceOrder(cycle.tree, cycle.snapshot.runtimes, told, cycle.policy.restart_cost_s)
        unprotected = replace(self._rules, protects=False)
        self._candidates = CandidateFinder(cycle.running, cycle.inventory, unprotected, self._service)

    def binding(self, request: Request, *, guarantee_waits: bool) -> Protection | None:
        """The protection that has to end before jobs leave for the request; None if it waits for something else."""
        outcome, after = self._cycle.outcome, self._cycle.accounts.open_after_evictions()
        found = self._candidates.candidates(
            request, after.usage, guarantee_waits=guarantee_waits, above=self._service.evicts_above(request.job)
        )
        known = list(not_yet_leaving((*found.surplus, *found.jobs), outcome))
        ends = {id(candidate): self._protected_until(candidate) for candidate in known}
        if not any(ends.values()):
            return None
        known.sort(key=lambda candidate: ends[id(candidate)])
        sufficient = cheapest_set(after, request, [iter(known)], self._rules.moment, most=len(known))
        protected = [victim for victim in sufficient.victims if ends[id(victim)]] if sufficient else []
        if not protected:
            return None
        return Protection(
            until=max(ends[id(victim)] for victim in protected),
            milli=sum(victim.allocation.charge.milli for victim in protected),
        )

    def _protected_until(self, candidate: EvictionCandidate) -> float:
        """0 if the candidate may leave now: surplus workers always may, and what a guarantee reclaims."""
        if not candidate.is_job or candidate.kind is EvictionKind.RECLAIMED:
            return 0.0
        return self._rules.protected_until(candidate.job) or 0.0
