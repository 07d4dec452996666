"""Two occupancies: the current one, and the one after the evictions that are under way.

A job that fits currently is admitted. A job that fits only after evictions is *nominated*: its place is allocated in
both, so nobody else gets what its victims give back. `after_evictions` exists only once a job leaves or could leave.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.model.objects import Job


class Accounts:
    __slots__ = ("_after_evictions", "_leaving", "_requeued", "_running", "current")

    def __init__(self, current: Occupancy, running: RunningJobs) -> None:
        self.current = current
        self._running = running
        self._leaving = list(running.leaving)
        self._requeued = {job.key for job in self._leaving if job.evicting}
        """Those of them that give back all that they hold; the others are being resized."""
        self._after_evictions: Occupancy | None = None

    def expect_to_leave(self, jobs: Iterable[Job]) -> None:
        """Count these jobs among those that leave, whole. Only before `after_evictions` is first read."""
        for job in jobs:
            if job.resizing_from is None:
                self._leaving.append(job)
            self._requeued.add(job.key)

    @property
    def after_evictions(self) -> Occupancy | None:
        """Accounts after all evictions; None while no job leaves."""
        if self._after_evictions is None and self._leaving:
            self.open_after_evictions()
        return self._after_evictions

    def open_after_evictions(self) -> Occupancy:
        """The occupancy without those who leave, also where none does yet."""
        if self._after_evictions is None:
            after = self._after_evictions = self.current.copy()
            for job in self._leaving:
                after.release(self._running.allocations[job.key])
                if job.key not in self._requeued and job.placement is not None:
                    after.allocate(allocation_of(job, job.placement, after.inventory, after.tree))
        return self._after_evictions

    def allocate(self, allocation: Allocation) -> None:
        """Take what is free currently."""
        self.current.allocate(allocation)
        if self._after_evictions is not None:
            self._after_evictions.allocate(allocation)

    def nominate(self, allocation: Allocation) -> None:
        """Take what becomes free after evictions; until then `current` counts it twice, and nothing else fits there."""
        self.open_after_evictions().allocate(allocation)
        self.current.allocate(allocation)

    def release(self, allocation: Allocation) -> None:
        """Give back what `allocate` took."""
        self.current.release(allocation)
        if self._after_evictions is not None:
            self._after_evictions.release(allocation)
