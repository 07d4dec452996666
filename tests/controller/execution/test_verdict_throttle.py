"""Which verdicts are written, and when."""

from __future__ import annotations

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.execution.verdict_throttle import VerdictThrottle
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.lifecycle import status_transitions
from cotenant.core.model.plan import Reason, Verdict
from tests.controller.builders import T0, job_document


def told(message: str, reason: Reason = Reason.WAITING_FOR_GPUS) -> dict[str, Verdict]:
    return {"red/train": Verdict(job="red/train", reason=reason, message=message)}


def waits(verdict: Verdict) -> JobRecord:
    status = status_transitions.waiting(TrainingJobStatus(observed_generation=1), verdict, T0)
    return read_job(job_document(status=status.to_document()))


def test_a_verdict_is_written_when_its_reason_is_new_and_reworded_only_now_and_then() -> None:
    throttle = VerdictThrottle(JobMemories(), rewrite_s=30)

    def write(verdicts: dict[str, Verdict], jobs: dict[str, JobRecord], now: float) -> int:
        to_write = throttle.verdicts_to_write(verdicts, jobs, now)
        throttle.note_written(verdicts, to_write, now)
        return len(to_write)

    new = {"red/train": read_job(job_document())}
    knows = {"red/train": waits(told("3 free")["red/train"])}
    written = [
        write(told("3 free"), new, T0),
        write(told("3 free"), knows, T0 + 1),
        write(told("2 free"), knows, T0 + 2),
        write(told("2 free"), knows, T0 + 30),
        write(told("2 free", Reason.BUDGET_SPENT), knows, T0 + 31),
    ]
    assert written == [1, 0, 0, 1, 1]
