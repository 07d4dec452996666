"""Decides which verdicts are written: a new reason or a first estimate at once, other messages only now and then.

Numbers in verdicts change with every cycle. If each change were written, a thousand waiting jobs would cost a thousand
patches a cycle, without use to tenants. Verdicts that the status shows already are remembered, so unchanged ones cost
one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import PendingStatus
from cotenant.controller.execution.writes.jobs_of_others import verdict_in
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Verdict

REWRITES_PER_CYCLE_MAX = 50
"""Most new messages per cycle. New reasons are not limited."""


class VerdictThrottle:
    def __init__(self, memories: JobMemories, *, rewrite_s: float, namespaces: Collection[str] = ()) -> None:
        """`namespaces`: all that there are. A verdict names no job of another namespace than its own job's."""
        self._memories, self._namespaces = memories, namespaces
        self._rewrite_s = rewrite_s
        self._last: Mapping[JobKey, Verdict] = {}

    def verdicts_to_write(
        self,
        verdicts: Mapping[JobKey, Verdict],
        jobs: Mapping[JobKey, JobRecord],
        now: float,
        is_idle: Callable[[JobKey], bool] = lambda key: True,
    ) -> list[tuple[JobRecord, Verdict]]:
        """The verdicts of this cycle to be written now; after `note_written`, the others have to wait.

        `is_idle` says whether the job's status may be written now.
        """
        worth_it, rewrites = [], 0
        for key, verdict in verdicts.items():
            record = jobs.get(key)
            if record is None:
                continue
            memory = self._memories[record.id]
            shown = memory.shown
            if shown is not None and shown[1] is record and shown[0] == verdict:
                continue
            if record.phase is not Phase.PENDING or not is_idle(key):
                continue
            if _new_reason(record, verdict):
                worth_it.append((record, verdict_in(record.namespace, verdict, self._namespaces)))
            elif not _new_message(record.status.pending, verdict):
                memory.shown = verdict, record
            elif rewrites < REWRITES_PER_CYCLE_MAX and (
                self._has_rested(record, now) or _is_first_estimate(record.status.pending, verdict)
            ):
                told = verdict_in(record.namespace, verdict, self._namespaces)
                if _new_message(record.status.pending, told):
                    rewrites += 1
                    worth_it.append((record, told))
                else:
                    memory.shown = verdict, record
        return worth_it

    def note_written(
        self, verdicts: Mapping[JobKey, Verdict], written: list[tuple[JobRecord, Verdict]], now: float
    ) -> None:
        """Forget jobs without a verdict in this cycle. If one gets a verdict again, it counts as new."""
        if verdicts.keys() != self._last.keys():
            for memory in self._memories:
                if memory.id.key not in verdicts:
                    memory.pending_written_at, memory.shown = 0.0, None
        self._last = verdicts
        for record, _ in written:
            self._memories[record.id].pending_written_at = now

    def _has_rested(self, record: JobRecord, now: float) -> bool:
        return now - self._memories[record.id].pending_written_at >= self._rewrite_s


def _new_reason(record: JobRecord, verdict: Verdict) -> bool:
    status = record.status
    if status.pending is None or status.phase is None or status.observed_generation != record.generation:
        return True
    return status.pending.reason != verdict.reason.value


def _is_first_estimate(pending: PendingStatus | None, verdict: Verdict) -> bool:
    """The job's status has no estimated start, and now there is one: futures are played after the first decision."""
    return pending is not None and pending.estimated_start is None and verdict.estimated_start_at is not None


def _new_message(pending: PendingStatus | None, verdict: Verdict) -> bool:
    if pending is None:
        return True
    moved = _moved(unix_seconds(pending.estimated_start), verdict.estimated_start_at)
    moved |= _moved(unix_seconds(pending.latest_start), verdict.latest_start_at)
    moved |= _bound_moved(unix_seconds(pending.starts_by), verdict.starts_by)
    return moved or pending.message != verdict.message or (pending.would_start_if or "") != verdict.would_start_if


def _bound_moved(written: float | None, bound: float | None) -> bool:
    """True if only `startsBy` differs and came nearer: the old value is still true, and is updated once an hour."""
    if written is None or bound is None:
        return written is not bound
    return bound > written + 60.0 or bound < written - 3_600.0


def _moved(written: float | None, estimate: float | None) -> bool:
    return (written is None) != (estimate is None) or abs((written or 0.0) - (estimate or 0.0)) > 60.0
