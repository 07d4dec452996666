"""State that a new leader reads from statuses: past borrowing, finished jobs, nominations. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cotenant.api.resources.queues import Queue
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.failover import BorrowingRecord, FailoverState
from cotenant.core.model.lifecycle import TERMINAL
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Reason


def failover_state(
    queues: Mapping[str, Queue], jobs: Mapping[JobKey, JobRecord], read: Callable[[JobRecord], Job | None]
) -> FailoverState:
    """`read` returns the core's job for a record, or None if it cannot be read."""
    ended, nominated = [], []
    evictions: dict[JobKey, float] = {}
    changed_at = 0.0
    for key, record in sorted(jobs.items()):
        status = record.status
        changed_at = max(changed_at, _changed_at(record))
        if status.eviction is not None and status.eviction.in_favour_of is not None and status.phase not in TERMINAL:
            evictions[key] = status.eviction.at.timestamp()
        if status.phase in TERMINAL and status.finished_at and (job := read(record)) is not None:
            ended.append((job, status.finished_at.timestamp()))
        elif status.pending is not None and status.pending.reason == Reason.WAITING_FOR_EVICTION:
            nominated.append(key)
    return FailoverState(
        borrowing=_borrowing(queues),
        ended=tuple(ended),
        nominated=tuple(nominated),
        evicted=tuple(key for key, at in evictions.items() if at >= changed_at),
    )


def _changed_at(record: JobRecord) -> float:
    """Time at which the job arrived or ended; 0 if neither can be read."""
    created = record.job.metadata.creation_timestamp if record.job is not None else None
    return max((at.timestamp() for at in (created, record.status.finished_at) if at is not None), default=0.0)


def _borrowing(queues: Mapping[str, Queue]) -> tuple[BorrowingRecord, ...]:
    return tuple(
        BorrowingRecord(
            queue=name,
            milli_seconds=queue.status.past_borrowing.milli_gpu_seconds,
            rate_milli=queue.status.borrowed,
            at=queue.status.past_borrowing.at.timestamp(),
            half_life_s=queue.status.past_borrowing.half_life_seconds,
        )
        for name, queue in sorted(queues.items())
        if queue.status.past_borrowing is not None
    )
