"""Which verdicts are worth a write: a new reason at once, a new message of the same reason only now and then.

Numbers in a verdict change with every cycle. Written each time, a thousand waiting jobs would be a thousand patches a
cycle, and of no use to a tenant.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import PendingStatus
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Verdict

REWRITES_PER_CYCLE_MAX = 50
"""New messages per cycle at most; reasons are never held back."""


class VerdictThrottle:
    def __init__(self, memories: JobMemories, *, rewrite_s: float) -> None:
        self._memories = memories
        self._rewrite_s = rewrite_s

    def verdicts_to_write(
        self, verdicts: Mapping[JobKey, Verdict], jobs: Mapping[JobKey, JobRecord], now: float
    ) -> list[tuple[JobRecord, Verdict]]:
        """Those of this cycle's verdicts that are worth it; `note_written` makes the others wait."""
        worth_it, rewrites = [], 0
        for key, verdict in verdicts.items():
            record = jobs.get(key)
            if record is None or record.phase is not Phase.PENDING:
                continue
            if _new_reason(record, verdict):
                worth_it.append((record, verdict))
            elif rewrites < REWRITES_PER_CYCLE_MAX and self._may_rewrite(record, verdict, now):
                rewrites += 1
                worth_it.append((record, verdict))
        return worth_it

    def note_written(
        self, verdicts: Mapping[JobKey, Verdict], written: list[tuple[JobRecord, Verdict]], now: float
    ) -> None:
        """A job that has no verdict in this cycle begins anew when it has one again."""
        for memory in self._memories:
            if memory.pending_written_at and memory.id.key not in verdicts:
                memory.pending_written_at = 0.0
        for record, _ in written:
            self._memories[record.id].pending_written_at = now

    def _may_rewrite(self, record: JobRecord, verdict: Verdict, now: float) -> bool:
        rested = now - self._memories[record.id].pending_written_at >= self._rewrite_s
        return rested and _new_message(record.status.pending, verdict)


def _new_reason(record: JobRecord, verdict: Verdict) -> bool:
    status = record.status
    if status.pending is None or status.phase is None or status.observed_generation != record.generation:
        return True
    return status.pending.reason != verdict.reason.value


def _new_message(pending: PendingStatus | None, verdict: Verdict) -> bool:
    if pending is None:
        return True
    moved = _moved(unix_seconds(pending.estimated_start), verdict.estimated_start_at)
    moved |= _moved(unix_seconds(pending.latest_start), verdict.latest_start_at)
    return moved or pending.message != verdict.message or (pending.would_start_if or "") != verdict.would_start_if


def _moved(written: float | None, estimate: float | None) -> bool:
    return (written is None) != (estimate is None) or abs((written or 0.0) - (estimate or 0.0)) > 60.0
