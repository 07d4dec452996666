"""What is remembered of a job goes with the job, and with nothing before it."""

from __future__ import annotations

import pytest

from cotenant.controller.client.kube import TRAINING_JOBS
from cotenant.controller.informers.job_memory import JobMemories, ObjectCreation
from cotenant.controller.informers.job_record import JobId
from tests.controller.execution.replica import (
    Replica,
    collect_garbage,
    phase,
    simulate_time,
    start_pods,
    submit,
)


def test_namesakes_have_memories_of_their_own() -> None:
    memories = JobMemories()
    first, second = JobId("red", "train", "u1"), JobId("red", "train", "u2")
    memories[first].creation = ObjectCreation(1)
    assert memories[second].creation is None
    memories.drop(first)
    assert [memory.id for memory in memories] == [second]


def test_what_was_made_for_an_earlier_attempt_is_not_of_this_one() -> None:
    memory = JobMemories()[JobId("red", "train", "u1")]
    memory.creation = ObjectCreation(1, rejection="refused")
    assert (memory.creation_of(1), memory.creation_of(2)) == (memory.creation, None)


@pytest.mark.looptime
async def test_a_job_that_is_deleted_while_it_runs_is_forgotten_once_its_pods_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulate_time(monkeypatch)
    replica = Replica()
    job = submit(replica.kube, workers=1)
    await replica.run()
    await start_pods(replica.kube)
    await replica.run()
    assert phase(replica.kube) == "Running"
    replica.kube.remove(TRAINING_JOBS, "train", "red")
    await replica.run()
    assert len(replica.operator.memories) == 1  # its pods hold GPUs
    collect_garbage(replica.kube, job["metadata"]["uid"])
    await replica.run()
    assert len(replica.operator.memories) == 0
