"""What a new leader reads in statuses: jobs that ended, nominations, past borrowing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cotenant.api.conversion.to_core import to_job
from cotenant.api.resources.queues import Queue
from cotenant.api.resources.trainingjob_status import EvictionStatus, PendingStatus, TrainingJobStatus
from cotenant.api.scalars.fields import moment
from cotenant.controller.cluster.failover import failover_state
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.core.model.failover import BorrowingRecord
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import Job
from tests.controller.builders import T0, job_document


def record(**status: Any) -> JobRecord:
    return replace(read_job(job_document()), status=TrainingJobStatus(**status))


def read(one: JobRecord) -> Job | None:
    return to_job(one.job) if one.job else None


def queue(name: str, **status: Any) -> Queue:
    return Queue.model_validate(
        {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {},
            "status": status,
        }
    )


def test_a_job_that_ended_is_remembered_with_the_time_of_its_end() -> None:
    done = record(phase=Phase.SUCCEEDED, finished_at=moment(T0))
    failed = record(phase=Phase.FAILED, finished_at=moment(T0 + 5))
    unknown = record(phase=Phase.FAILED)
    running = record(phase=Phase.RUNNING, finished_at=moment(T0))
    state = failover_state({}, {"a": done, "b": failed, "c": unknown, "d": running}, read)
    assert [at for _, at in state.ended] == [T0, T0 + 5]
    assert [job.key for job, _ in state.ended] == ["red/train", "red/train"]


def test_a_job_that_ended_and_cannot_be_read_is_forgotten() -> None:
    state = failover_state({}, {"a": record(phase=Phase.SUCCEEDED, finished_at=moment(T0))}, lambda _: None)
    assert (state.ended, state.nominated) == ((), ())


def test_jobs_for_which_others_were_evicted_are_nominated_in_the_order_of_their_keys() -> None:
    nominated = record(phase=Phase.PENDING, pending=PendingStatus(reason="WaitingForEviction", message="", since=T0))
    waiting = record(phase=Phase.PENDING, pending=PendingStatus(reason="WaitingForGPUs", message="", since=T0))
    state = failover_state({}, {"b": nominated, "a": nominated, "c": waiting, "d": record()}, read)
    assert state.nominated == ("a", "b")


def evicted(at: float, *, phase: Phase = Phase.PENDING, for_whom: str | None = "red/other") -> JobRecord:
    eviction = EvictionStatus(kind="Reclaimed", message="", in_favour_of=for_whom, at=moment(at), done=True)
    return record(phase=phase, eviction=eviction)


def test_jobs_that_were_evicted_since_the_last_arrival_and_the_last_end_are_known_again() -> None:
    """All arrived at `T0`; one ended five seconds later."""
    records = {
        "a": evicted(T0 + 5),
        "b": evicted(T0 + 9, phase=Phase.RUNNING),
        "early": evicted(T0 + 4),
        "lost": evicted(T0 + 9, for_whom=None),
        "over": evicted(T0 + 9, phase=Phase.FAILED),
        "done": record(phase=Phase.SUCCEEDED, finished_at=moment(T0 + 5)),
    }
    assert failover_state({}, records, read).evicted == ("a", "b")


def test_past_borrowing_is_taken_up_with_the_time_and_the_half_life_that_it_was_written_with() -> None:
    past = {"milliGPUSeconds": 7_200_000, "at": "2026-01-01T00:00:00Z", "halfLifeSeconds": 60}
    queues = {"red": queue("red", borrowed="2", pastBorrowing=past), "blue": queue("blue", borrowed="1")}
    (found,) = failover_state(queues, {}, read).borrowing
    assert found == BorrowingRecord(queue="red", milli_seconds=7_200_000, rate_milli=2000, at=T0, half_life_s=60)


def test_an_eviction_before_the_last_arrival_is_over() -> None:
    assert failover_state({}, {"a": evicted(T0 - 1)}, read).evicted == ()
    assert failover_state({}, {"a": evicted(T0)}, read).evicted == ("a",)
