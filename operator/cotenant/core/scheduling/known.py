"""Memory between cycles: results of one cycle that the next can use again if what they follow from has not changed.

It saves work and changes no answer. Decisions go on from decisions (`Decision.known`), plays of the future from plays.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.policy import Policy
from cotenant.core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    running: RunningJobs
    requests: RequestResolver
    fits: FitCache
    """Brought up to date from cycle to cycle (`FitCache.follow`)."""

    @classmethod
    def of(cls, cycle: Cycle, requests: RequestResolver) -> Known:
        return cls(cycle.running, requests, cycle.accounts.current.fit_cache)


def open_cycle(snapshot: Snapshot, policy: Policy, known: Known | None) -> tuple[Cycle, RequestResolver]:
    """A cycle over the snapshot, and the requests of its jobs. `known`: memory of a cycle that has ended."""
    if known is None:
        cycle = Cycle.open(snapshot, policy)
        return cycle, RequestResolver(cycle.inventory, cycle.tree)
    cycle = Cycle.open(snapshot, policy, known.running, known.fits)
    return cycle, RequestResolver(cycle.inventory, cycle.tree, known.requests)
