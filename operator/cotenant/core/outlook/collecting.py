"""Collecting in a play: who has waited too long, and the places that are kept for it.

The rules are the production core's (`actions/collect`, `actions/tenure`); `turns` calls them where its cycle does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cotenant.core.actions.backfill import Reservation, Reservations
from cotenant.core.actions.collect import collect
from cotenant.core.actions.counted_ends import Holders, holders_of
from cotenant.core.actions.eviction_rules import EvictionRules
from cotenant.core.actions.holders import HolderTable
from cotenant.core.actions.start_bounds import waiting_order
from cotenant.core.actions.tenure import Tenures
from cotenant.core.actions.victims import JobParts
from cotenant.core.allocation.eviction_candidate import CandidateList
from cotenant.core.allocation.request import Request
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.outlook.played_cluster import LEAVING_S, PlayedCluster


class Collecting:
    """Collecting in one cycle of a play. `close` gives back what is kept."""

    def __init__(self, cluster: PlayedCluster, rules: EvictionRules) -> None:
        self._cluster = cluster
        self._rules = rules
        self._tenures = Tenures(rules)
        self._kept: dict[JobKey, Reservation] = {}

    def __contains__(self, job: Job) -> bool:
        """Something is kept for the job."""
        return job.key in self._kept

    def __bool__(self) -> bool:
        return bool(self._kept)

    def overdue_since(self, job: Job) -> float:
        return self._tenures.overdue_since(job)

    def overdue(self, heads: Iterable[tuple[Job, Request]]) -> tuple[list[Request], list[Request]]:
        """Requests of jobs that have waited too long, who waited longest first: those that are entitled, and those that
        have to borrow."""
        found = [one for one in heads if self.overdue_since(one[0]) <= self._cluster.now]
        requests = [request for _, request in sorted(found, key=lambda one: waiting_order(one[0]))]
        entitled = [request for request in requests if self._tenures.is_entitled(request)]
        return entitled, [request for request in requests if not self._tenures.is_entitled(request)]

    def candidates(self, request: Request) -> CandidateList:
        """Jobs that may be asked to leave for it."""
        running = self._cluster.running
        parts = JobParts(running, self._cluster.inventory, self._rules)
        return self._tenures.candidates(request, running, parts)

    def keep_place(self, job: Job, request: Request, reservations: Reservations, *, for_quota: bool) -> bool:
        """Keep the place at which the job will start; False where no ending makes one. `for_quota`: quota lacks."""
        occupancy = self._cluster.occupancy
        of_quota = for_quota and not self._tenures.is_entitled(request)
        found = collect(occupancy, request, self._holders(request), self._tenures, of_quota=of_quota)
        if found is None:
            return False
        kept = self._kept[job.key] = found.reservation
        reservations.collect(kept)
        occupancy.allocate(kept.allocation)
        return True

    def close(self) -> None:
        for kept in self._kept.values():
            self._cluster.occupancy.release(kept.allocation)
        self._kept.clear()

    def _holders(self, request: Request) -> Holders:
        """All that run; who was asked to leave has left soon."""
        table = HolderTable.among(self._cluster.running)
        found = holders_of(request, self._tenures, table, np.arange(len(table.keys)))
        return replace(found, ends=np.where(table.leaves, self._cluster.now + LEAVING_S, found.ends))
