"""Running jobs as a table of arrays: since when each holds GPUs, what ends it, and what it gives back.

Kept from cycle to cycle: only rows of jobs that have changed are made again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import TypeVar

import numpy as np

from cotenant.core.allocation.allocation import Allocation, AllocationBatch
from cotenant.core.gpus.inventory import BoolArray, FloatArray, IntArray
from cotenant.core.model.objects import Job, JobKey

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, eq=False)
class HolderTable:
    """One row per job, in order of key. Never written."""

    keys: Sequence[JobKey]
    jobs: Sequence[Job]
    allocations: Sequence[Allocation]
    begun: FloatArray
    """When each was admitted; not a number: not yet."""
    expected_s: FloatArray
    """Its expectedRuntime; infinity: it has none."""
    longest_s: FloatArray
    """Its maxRuntime; infinity: it has none."""
    backfilled_until: FloatArray
    """When it promised to have ended (`Job.backfilled_until`); infinity: it promised nothing."""
    kind: IntArray
    """Place of (queue, preemptible) in `kinds`."""
    stays: BoolArray
    """No eviction and no resize is under way."""
    batch: AllocationBatch
    """What each holds."""
    kinds: tuple[tuple[str, bool], ...]

    @classmethod
    def of(
        cls, jobs: Mapping[JobKey, Job], allocations: Mapping[JobKey, Allocation], before: HolderTable | None = None
    ) -> HolderTable:
        """`before`: an earlier table. Rows of jobs that are the same objects are taken from it."""
        if before is None or before.batch.is_wide:
            return _table(jobs, allocations, jobs)
        same = [
            row
            for row, (key, job, held) in enumerate(zip(before.keys, before.jobs, before.allocations, strict=True))
            if jobs.get(key) is job and allocations[key] is held
        ]
        if len(same) * 2 < len(jobs):
            return _table(jobs, allocations, jobs)
        fresh = jobs.keys() - {before.keys[row] for row in same}
        if not fresh and len(same) == len(before.keys):
            return before
        return _merged(before, np.array(same, dtype=np.int64), _table(jobs, allocations, fresh))

    def staying(self, asked_to_leave: Iterable[JobKey]) -> IntArray:
        """Rows of jobs that are neither leaving, nor being resized, nor among these."""
        stays = self.stays.copy()
        for key in asked_to_leave:
            place = bisect_left(self.keys, key)
            stays[place : place + 1] &= self.keys[place : place + 1] != [key]
        return np.flatnonzero(stays)

    def with_starting(self, rows: IntArray, starting: Sequence[tuple[Job, Allocation]]) -> HolderTable:
        """These rows, and rows for jobs that are about to hold something."""
        ordered = sorted(starting, key=lambda one: one[0].key)
        return _merged(self, rows, _rows([job for job, _ in ordered], [held for _, held in ordered]))


def _table(jobs: Mapping[JobKey, Job], allocations: Mapping[JobKey, Allocation], keys: Iterable[JobKey]) -> HolderTable:
    ordered = sorted(keys)
    return _rows([jobs[key] for key in ordered], [allocations[key] for key in ordered])


def _rows(jobs: Sequence[Job], allocations: Sequence[Allocation]) -> HolderTable:
    numbers: dict[tuple[str, bool], int] = {}
    kind = [numbers.setdefault((job.queue, job.preemptible), len(numbers)) for job in jobs]
    return HolderTable(
        [job.key for job in jobs],
        jobs,
        allocations,
        np.array([nan if job.admitted_at is None else job.admitted_at for job in jobs], dtype=np.float64),
        np.array([inf if job.expected_runtime_s is None else job.expected_runtime_s for job in jobs], dtype=np.float64),
        np.array([inf if job.max_runtime_s is None else job.max_runtime_s for job in jobs], dtype=np.float64),
        np.array([inf if job.backfilled_until is None else job.backfilled_until for job in jobs], dtype=np.float64),
        np.array(kind, dtype=np.int64),
        np.array([not job.evicting and job.resizing_from is None for job in jobs], dtype=np.bool_),
        AllocationBatch(allocations),
        tuple(numbers),
    )


def _merged(before: HolderTable, same: IntArray, fresh: HolderTable) -> HolderTable:
    """These rows of `before`, and all of `fresh`, in order of key."""
    rows = same.tolist()
    keys = [before.keys[row] for row in rows]
    places = [bisect_left(keys, key) for key in fresh.keys]
    order = np.insert(np.arange(len(rows)), places, np.arange(len(rows), len(rows) + len(places)))
    kinds = list(dict.fromkeys((*before.kinds, *fresh.kinds)))
    batch = before.batch.take(np.arange(len(before.keys)))
    batch.extend(fresh.allocations)
    new_kind = np.array([kinds.index(kind) for kind in fresh.kinds], dtype=np.int64)[fresh.kind]

    return HolderTable(
        _in_order(order, keys, fresh.keys),
        _in_order(order, [before.jobs[row] for row in rows], fresh.jobs),
        _in_order(order, [before.allocations[row] for row in rows], fresh.allocations),
        np.concatenate([before.begun[same], fresh.begun])[order],
        np.concatenate([before.expected_s[same], fresh.expected_s])[order],
        np.concatenate([before.longest_s[same], fresh.longest_s])[order],
        np.concatenate([before.backfilled_until[same], fresh.backfilled_until])[order],
        np.concatenate([before.kind[same], new_kind])[order],
        np.concatenate([before.stays[same], fresh.stays])[order],
        batch.take(np.concatenate([same, len(before.keys) + np.arange(len(places))])[order]),
        tuple(kinds),
    )


def _in_order(order: IntArray, one: Sequence[_Item], other: Sequence[_Item]) -> list[_Item]:
    both = [*one, *other]
    return [both[place] for place in order.tolist()]
