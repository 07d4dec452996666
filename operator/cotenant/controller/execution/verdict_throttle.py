"""Which verdicts are worth a write: a new reason at once, new wording of the same reason only now and then.

Numbers in a verdict change with every cycle. Written each time, a thousand waiting jobs would be a thousand patches a
cycle, and tell nobody anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import PendingStatus
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Verdict

REWRITES_PER_CYCLE_MAX = 50
"""New wordings per cycle at most; reasons are never held back."""


class VerdictThrottle:
    def __init__(self, *, reword_s: float) -> None:
        self._rewrite_s = reword_s
        self._written_at: dict[JobKey, float] = {}

    def verdicts_to_write(
        self, verdicts: Mapping[JobKey, Verdict], jobs: Mapping[JobKey, JobRecord], now: float
    ) -> Iterator[tuple[JobRecord, Verdict]]:
        for key in set(self._written_at) - set(verdicts):
            del self._written_at[key]
        reworded = 0
        for key, verdict in verdicts.items():
            record = jobs.get(key)
            if record is None or record.status.phase not in {None, Phase.PENDING}:
                continue
            if _new_reason(record, verdict):
                self._written_at[key] = now
                yield record, verdict
            elif (
                reworded < REWRITES_PER_CYCLE_MAX
                and self._may_rewrite(key, now)
                and _new_message(record.status.pending, verdict)
            ):
                reworded += 1
                self._written_at[key] = now
                yield record, verdict

    def _may_rewrite(self, key: JobKey, now: float) -> bool:
        return now - self._written_at.get(key, 0.0) >= self._rewrite_s


def _new_reason(record: JobRecord, verdict: Verdict) -> bool:
    status = record.status
    if status.pending is None or status.phase is None or status.observed_generation != record.generation:
        return True
    return status.pending.reason != verdict.reason.value


def _new_message(pending: PendingStatus | None, verdict: Verdict) -> bool:
    if pending is None:
        return True
    estimate = unix_seconds(pending.estimated_start)
    wanted = verdict.estimated_start_at
    moved = (estimate is None) != (wanted is None) or abs((estimate or 0.0) - (wanted or 0.0)) > 60.0
    return moved or pending.message != verdict.message or (pending.would_start_if or "") != verdict.would_start_if
