"""Two occupancies: the current one, and the one after the evictions that are under way.

A job that fits now is admitted. A job that fits only after evictions is *nominated*: its place is allocated in both, so
that no other job gets what its victims give back. `after_evictions` is made only when a job leaves or could leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.model.objects import Job, JobKey


class Accounts:
    __slots__ = ("_after_evictions", "_given_back", "_leaving", "_requeued", "_running", "current")

    def __init__(self, current: Occupancy, running: RunningJobs) -> None:
        self.current = current
        self._running = running
        self._leaving = list(running.leaving)
        self._requeued = {job.key for job in self._leaving if job.evicting}
        """Jobs among `_leaving` that give back everything; the others are being resized."""
        self._after_evictions: Occupancy | None = None
        self._given_back: dict[JobKey, Counter[tuple[int, int]]] = {}
        """Job → (row, column) of a GPU → milli that a departure of this cycle released there."""

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
        """The occupancy without the jobs that leave; made even if none leaves yet."""
        if self._after_evictions is None:
            after = self._after_evictions = self.current.copy()
            for job in self._leaving:
                after.release(self._running.allocations[job.key])
                self._given_back[job.key] = _milli(self._running.allocations[job.key])
                if job.key not in self._requeued and job.placement is not None:
                    after.allocate(allocation_of(job, job.placement, after.inventory, after.tree))
        return self._after_evictions

    def depart(self, key: JobKey, part: Allocation) -> None:
        """A running job leaves, whole or in part: release `part` in `after_evictions`.

        Raises `ValueError` if the job does not hold that much, or has given it back already.
        """
        after = self.open_after_evictions()
        given_back = self._given_back.setdefault(key, Counter())
        given_back.update(_milli(part))
        if not given_back <= _milli(self._running.allocations[key]):
            raise ValueError(f"job {key} leaves twice: it gives back more than it holds")
        after.release(part)

    def allocate(self, allocation: Allocation) -> None:
        """Take what is free currently."""
        self.current.allocate(allocation)
        if self._after_evictions is not None:
            self._after_evictions.allocate(allocation)

    def nominate(self, allocation: Allocation) -> None:
        """Take what evictions make free. Until they are done, `current` counts it twice, and nothing else fits
        there."""
        self.open_after_evictions().allocate(allocation)
        self.current.allocate(allocation)

    def release(self, allocation: Allocation) -> None:
        """Give back what `allocate` took."""
        self.current.release(allocation)
        if self._after_evictions is not None:
            self._after_evictions.release(allocation)


def _milli(allocation: Allocation) -> Counter[tuple[int, int]]:
    """(row, column) of each GPU → milli that the allocation takes of it."""
    found: Counter[tuple[int, int]] = Counter()
    for node in allocation.nodes:
        for column, milli in zip(node.columns, node.compute_milli, strict=True):
            found[node.row, column] += milli
    return found
