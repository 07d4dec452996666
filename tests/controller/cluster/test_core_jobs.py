"""TrainingJobs as the core sees them, with what their earlier attempts still hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.api.resources.trainingjob_status import BlockedStart, TrainingJobStatus
from cotenant.controller.client.kube import PODS, TRAINING_JOBS
from cotenant.controller.cluster.core_jobs import CoreJobs, unreadable_job
from cotenant.controller.cluster.gpu_holders import GpuHolders
from cotenant.controller.cluster.nodes.cluster_nodes import ClusterNodes
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import read_job
from cotenant.controller.informers.quarantine import Stage, quarantine_after
from cotenant.controller.lifecycle.policies.blocked_start import SPARES_S
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import GpuRequest, Job
from cotenant.core.state.cluster_state import ClusterState
from tests.controller.builders import T0, UID, admitted, job_document, placement_on, pod_document

CREATED = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
RUNS = {"phase": "Running"}


def core_jobs_of(cache: ObjectCache, memories: JobMemories, settings: Settings) -> CoreJobs:
    return CoreJobs(cache, memories, settings, ClusterNodes(cache, ClusterState(), settings), GpuHolders())


def core_job(status: TrainingJobStatus | None, *pods: dict[str, Any], reserve_mib: int = 0, **spec: Any) -> Job | None:
    cache = ObjectCache()
    cache.put(TRAINING_JOBS, job_document(status=status.to_document() if status else None, **spec))
    for document in pods:
        cache.put(PODS, document)
    core_jobs = core_jobs_of(cache, JobMemories(), Settings(reserve_head_mib=reserve_mib))
    return core_jobs.job(cache.jobs["red/train"], T0)


def left_on(job: Job | None) -> list[str]:
    """Nodes on which pods of earlier attempts still hold."""
    assert job is not None
    return [part.node for part in job.resizing_from.nodes] if job.resizing_from else []


def test_a_pod_of_an_earlier_attempt_holds_what_it_was_given_until_it_has_ended() -> None:
    status = admitted(Phase.STARTING, ("n2", 1), attempts=2)
    ended = {"phase": "Succeeded"}
    assert left_on(core_job(status, pod_document(0, attempt=1, status=RUNS))) == ["n1"]
    assert left_on(core_job(status, pod_document(0, attempt=1, status=ended))) == []
    assert left_on(core_job(status, pod_document(0, attempt=2, status=RUNS))) == []


def test_a_server_of_an_earlier_attempt_holds_no_gpus() -> None:
    server = pod_document(1, attempt=1, status=RUNS, server=True)
    status = admitted(Phase.STARTING, ("n2", 1), attempts=2)
    assert left_on(core_job(status, server)) == []
    assert left_on(core_job(status, server, pod_document(0, attempt=1, status=RUNS))) == ["n1"]


@pytest.mark.parametrize("reserve_mib", [0, 512])
def test_the_launchers_memory_is_counted_for_each_worker(reserve_mib: int) -> None:
    bare, job = core_job(None), core_job(None, reserve_mib=reserve_mib)
    assert bare is not None
    assert job is not None
    assert job.memory_mib - bare.memory_mib == reserve_mib


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        (TrainingJobStatus(phase=Phase.SUSPENDED), {}),
        (TrainingJobStatus(phase=Phase.FAILED), {}),
        (None, {"suspend": True}),
        (None, {"gpu": {"memoryFraction": "nonsense"}}),
        (TrainingJobStatus(phase=Phase.RUNNING), {}),
    ],
    ids=["suspended", "over", "to be suspended", "not readable", "running without a placement"],
)
def test_a_job_that_neither_waits_nor_holds_is_none(status: TrainingJobStatus | None, spec: dict[str, Any]) -> None:
    assert core_job(status, **spec) is None


def test_a_job_that_holds_is_one_even_where_it_is_to_be_suspended_or_cannot_be_read() -> None:
    held = admitted(Phase.RUNNING, ("n1", 1))
    for spec in ({}, {"suspend": True}, {"gpu": {"memoryFraction": "nonsense"}}):
        job = core_job(held, **spec)
        assert job is not None
        assert job.placement is not None


@pytest.mark.parametrize(
    ("status", "given_back", "holds"),
    [
        pytest.param(admitted(Phase.RUNNING, ("n1", 1)), None, True, id="it runs"),
        pytest.param(admitted(Phase.RUNNING, ("n1", 1)), 1, False, id="nothing of this attempt runs any more"),
        pytest.param(admitted(Phase.RUNNING, ("n1", 1), attempts=2), 1, True, id="nothing of an earlier attempt runs"),
        pytest.param(TrainingJobStatus(phase=Phase.FAILED), None, False, id="it is over"),
        pytest.param(TrainingJobStatus(phase=Phase.RUNNING), None, False, id="it has no placement"),
    ],
)
def test_a_job_that_cannot_be_worked_with_holds_what_its_status_says_while_it_may_run(
    status: TrainingJobStatus, given_back: int | None, holds: bool
) -> None:
    cache, memories = ObjectCache(), JobMemories()
    cache.put(TRAINING_JOBS, job_document(status=status.to_document()))
    record = cache.jobs["red/train"]
    memories[record.id].given_back = given_back
    core_jobs = core_jobs_of(cache, memories, Settings())
    held = core_jobs.as_it_holds(record)
    assert (held is not None and held.placement == record.placement) is holds


@pytest.mark.parametrize(
    ("spec", "queue", "evictable"),
    [
        ({"gracePeriod": "8760h"}, "red", True),
        ({"queue": "no name of a queue"}, "", False),
        ({"queue": 5}, "", False),
    ],
    ids=["of a bound that is new", "without a queue", "with nonsense for a queue"],
)
def test_a_job_that_cannot_be_worked_with_keeps_its_placement_and_can_be_evicted_where_its_queue_is_known(
    spec: dict[str, Any], queue: str, evictable: bool
) -> None:
    record = replace(read_job(job_document(**spec)), status=admitted(Phase.RUNNING, ("n1", 2)))
    placement = placement_on(("n1", 2))
    job = unreadable_job(record, placement)
    assert (job.key, job.uid, job.queue, job.placement) == ("red/train", UID, queue, placement)
    assert (job.workers_min, job.workers_max, job.submitted_at, job.admitted_at) == (2, 2, 0.0, T0)
    assert (job.preemptible, job.evicting) == (evictable, False)


def test_a_job_that_is_leaving_is_not_asked_to_leave_again_because_it_cannot_be_read() -> None:
    record = replace(read_job(job_document(gracePeriod="8760h")), status=admitted(Phase.EVICTING, ("n1", 2)))
    assert unreadable_job(record, placement_on(("n1", 2))).evicting is True


@pytest.mark.parametrize(("stage", "moved"), [(Stage.SCHEDULING, False), (Stage.EXECUTION, True)])
def test_a_job_with_which_no_decision_can_be_made_holds_and_is_not_moved(stage: Stage, moved: bool) -> None:
    cache, memories = ObjectCache(), JobMemories()
    cache.put(TRAINING_JOBS, job_document(status=admitted(Phase.RUNNING, ("n1", 2)).to_document()))
    record = cache.jobs["red/train"]
    memories[record.id].quarantine = quarantine_after(None, stage, "x", generation=1, holding=True, now=T0)
    job = core_jobs_of(cache, memories, Settings()).job(record, T0)
    assert job is not None
    assert (job.placement, job.preemptible, job.gpu == GpuRequest()) == (record.placement, moved, not moved)


@pytest.mark.parametrize(
    ("retry_at", "generation", "in_line_since"),
    [(T0 + 1, 1, None), (T0, 1, T0), (T0 - 9, 1, T0 - 9), (T0 + 1, 0, CREATED)],
    ids=["in its pause", "at its end", "after it", "its spec was edited"],
)
def test_a_job_that_could_not_start_waits_behind_the_others(
    retry_at: float, generation: int, in_line_since: float | None
) -> None:
    start = BlockedStart(attempts=1, attempt=1, retry_at=retry_at, generation=generation)
    job = core_job(TrainingJobStatus(phase=Phase.PENDING, attempts=1, blocked_start=start))
    assert (job.submitted_at if job else None) == in_line_since


def test_a_job_whose_last_starts_were_blocked_evicts_nobody_for_an_hour() -> None:
    start = BlockedStart(attempts=3, attempt=1, retry_at=T0, generation=1)
    job = core_job(TrainingJobStatus(phase=Phase.PENDING, attempts=3, blocked_start=start))
    assert job is not None
    assert job.evicts_from == T0 + SPARES_S
