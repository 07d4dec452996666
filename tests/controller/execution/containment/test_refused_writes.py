"""What becomes of jobs whose status or deletion the API server refuses for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from cotenant.controller.client.kube import EVENTS, PODS, TRAINING_JOBS, FailedWebhookError, Outcome, Reply
from cotenant.controller.execution.containment.containment import Containment
from cotenant.controller.execution.writes.executor import Executor
from cotenant.controller.execution.writes.pods import pod_creator
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.quarantine import Quarantine, Stage
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, job_document, pod_document
from tests.controller.execution.containment.defects import Defect, DefectError, conditions, quarantined, run
from tests.controller.execution.replica import (
    Replica,
    end_pods,
    granted,
    phase,
    start_pods,
    status,
    submit,
    writes,
)
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime
COMMIT = "PATCH trainingjobs/bad/status"
TOO_LARGE = Reply(Outcome.REFUSED, message="etcdserver: request is too large", code=413)


async def too_large_while_it_runs() -> Replica:
    """The job `bad` runs on half of the GPUs, and its status cannot be written any more."""
    replica = Replica()
    submit(replica.kube, "bad", workers=2)
    await run(replica, 5.0)
    await start_pods(replica.kube)
    await run(replica, 5.0)
    replica.kube.faults.add(*(Fault(call=COMMIT, answer=TOO_LARGE) for _ in range(1000)))
    return replica


def suspend(replica: Replica) -> None:
    document = replica.kube.stored(TRAINING_JOBS, "bad", "red")
    assert document is not None
    replica.kube.put(TRAINING_JOBS, document | {"spec": document["spec"] | {"suspend": True}})


async def test_a_status_that_is_refused_for_good_is_tried_with_growing_pauses_and_its_pods_are_ended() -> None:
    replica = await too_large_while_it_runs()
    suspend(replica)
    written = len(writes(replica.kube))
    await run(replica, 60.0)
    tried = writes(replica.kube)[written:]
    assert sorted(await granted(replica.kube)) == ["!bad-1-0"]
    assert (tried.count(COMMIT) < 20, tried.count("DELETE pods/bad-1-0")) == (True, 1)
    assert (phase(replica.kube, "bad"), sorted(replica.held()), quarantined(replica)) == ("Running", ["red/bad"], 1.0)


async def test_the_room_of_a_job_whose_status_cannot_be_written_is_free_once_its_pods_are_gone() -> None:
    replica = await too_large_while_it_runs()
    suspend(replica)
    submit(replica.kube, "omega", workers=4)
    await run(replica, 10.0)
    waiting = phase(replica.kube, "omega")
    await end_pods(replica.kube)
    await run(replica, 60.0)
    assert (waiting, phase(replica.kube, "omega"), phase(replica.kube, "bad")) == ("Pending", "Starting", "Running")
    # Once it can be written, the status follows, and nothing was handed out twice.
    replica.kube.faults.pending.clear()
    await run(replica, 120.0)
    assert (phase(replica.kube, "bad"), sorted(replica.held())) == ("Suspended", ["red/omega"])


async def test_a_job_that_has_to_leave_for_another_leaves_though_that_cannot_be_written() -> None:
    replica = await too_large_while_it_runs()
    urgent = submit(replica.kube, "omega", workers=4)
    replica.kube.put(TRAINING_JOBS, urgent | {"spec": urgent["spec"] | {"priority": 100}})
    await run(replica, 120.0)
    leaving = sorted(await granted(replica.kube))
    await end_pods(replica.kube)
    await run(replica, 60.0)
    assert (leaving, phase(replica.kube, "omega")) == (["!bad-1-0"], "Starting")


def webhook_away() -> None:
    raise FailedWebhookError('failed calling webhook "jobs.example.com": no endpoints available for service "jobs"')


@pytest.mark.parametrize("suspended", [False, True], ids=["a job that is to start", "a job that is to end"])
async def test_a_webhook_that_is_away_is_told_with_pauses_and_nothing_is_lost_when_it_is_back(suspended: bool) -> None:
    replica = Replica()
    recording = asyncio.create_task(replica.operator.event_recorder.run())
    if suspended:
        submit(replica.kube, "bad", workers=2)
        await run(replica, 5.0)
        await start_pods(replica.kube)
        await run(replica, 5.0)
        suspend(replica)
    else:
        submit(replica.kube, "bad", workers=2)
    before = len(await granted(replica.kube))
    replica.kube.faults.add(*(Fault(call=COMMIT, first=webhook_away) for _ in range(1000)))
    submit(replica.kube, "omega", workers=1)
    await run(replica, 60.0)
    told = [event["message"] for event in (await replica.kube.list(EVENTS)).items if event["reason"] == "Quarantined"]
    recording.cancel()
    assert [message.count('failed calling webhook "jobs.example.com"') for message in told] == [1]
    assert (phase(replica.kube, "omega"), len(await granted(replica.kube))) == ("Starting", before + 1)
    assert 1000 - len(replica.kube.faults.pending) < 40, "writes that were tried"
    replica.kube.faults.pending.clear()
    await run(replica, 90.0)
    await end_pods(replica.kube) if suspended else await start_pods(replica.kube)
    await run(replica, 30.0)
    assert phase(replica.kube, "bad") == ("Suspended" if suspended else "Running")
    assert quarantined(replica) == 0.0


async def test_orphans_that_cannot_be_ended_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    submit(replica.kube, "bad", workers=1)
    await run(replica, 5.0)
    await start_pods(replica.kube)
    failed = count_failures(monkeypatch, Executor, "delete_orphans")
    replica.kube.remove(TRAINING_JOBS, "bad", "red")
    submit(replica.kube, "omega", workers=1)
    await run(replica, 60.0)
    assert (phase(replica.kube, "omega"), failed() < 12) == ("Starting", True)


def count_failures(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Callable[[], int]:
    calls = []

    async def fail(*args: Any) -> None:
        calls.append(args)
        raise DefectError

    monkeypatch.setattr(owner, name, fail)
    return lambda: len(calls)


async def test_a_finished_job_that_may_not_be_deleted_is_not_tried_in_every_cycle() -> None:
    replica = Replica()
    ended = {"phase": "Succeeded", "finishedAt": "2026-01-01T00:00:00Z"}
    document = submit(replica.kube, "bad", workers=1)
    spec = document["spec"] | {"ttlAfterFinished": "1s"}
    replica.kube.put(TRAINING_JOBS, document | {"spec": spec, "status": ended})
    delete, refusal = "DELETE trainingjobs/bad", Reply(Outcome.REFUSED, message="denied by a webhook", code=403)
    replica.kube.faults.add(*(Fault(call=delete, answer=refusal) for _ in range(1000)))
    await run(replica, 60.0)
    assert (writes(replica.kube).count(delete) < 12, conditions(replica)["Quarantined"]) == (
        True,
        ("True", "WriteRefused"),
    )


async def test_a_job_that_gave_its_room_back_makes_no_pods_there_when_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = Replica()
    defect = Defect(monkeypatch, pod_creator, "attempt_of")
    submit(replica.kube, "bad", workers=4)
    await run(replica, 5.0)
    submit(replica.kube, "omega", workers=4)
    await run(replica, 30.0)
    assert {pod.rpartition("-")[0] for pod in await granted(replica.kube)} == {"omega-1"}
    defect.mended = True
    await run(replica, 90.0)
    assert {pod.rpartition("-")[0] for pod in await granted(replica.kube)} == {"omega-1"}
    assert (sorted(replica.held()), phase(replica.kube, "bad")) == (["red/omega"], "Pending")


async def test_a_failure_that_passes_costs_a_job_neither_its_room_nor_an_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = Replica()
    defect = Defect(monkeypatch, pod_creator, "attempt_of")
    submit(replica.kube, "bad", workers=4)
    while not defect.times:
        await replica.run(0.1)
    defect.mended = True
    await run(replica, 10.0)
    assert (phase(replica.kube, "bad"), status(replica.kube, "bad")["attempts"]) == ("Starting", 1)
    assert (len(await granted(replica.kube)), conditions(replica)["Quarantined"]) == (2, ("False", "Lifted"))


@dataclass(frozen=True)
class Held:
    name: str
    phase: Phase = Phase.RUNNING
    again: bool = True
    inherited: bool = False
    runs: bool = False
    before: int | None = None
    given_back: int | None = None


HELD = [
    Held("nothing runs, and it failed again", given_back=1),
    Held("it failed for the first time", again=False),
    Held("an earlier leader failed", inherited=True),
    Held("it leaves", phase=Phase.EVICTING, given_back=1),
    Held("it waits", phase=Phase.PENDING),
    Held("a pod runs", runs=True),
    Held("an earlier attempt was given back", before=0, given_back=1),
    Held("it was given back", before=1, given_back=1),
]


@pytest.mark.parametrize("case", HELD, ids=lambda case: case.name)
async def test_what_a_job_holds_is_given_back_once_where_nothing_of_it_runs_and_it_fails_again(case: Held) -> None:
    observed, memories = ObjectCache(), JobMemories()
    held = admitted(Phase.EVICTING, ("n1", 1)).model_copy(update={"phase": case.phase})
    observed.put(TRAINING_JOBS, job_document(status=held.to_document()))
    if case.runs:
        observed.put(PODS, pod_document(0, status={"phase": "Running"}))
    (record,) = observed.jobs.values()
    memory = memories[record.id]
    memory.given_back = case.before
    memory.quarantine = Quarantine(
        stage=Stage.REFUSAL, message="", since=T0, failed_at=T0 + 10 if case.again else T0, retry_at=T0 + 100,
        generation=record.generation, inherited=case.inherited,
    )  # fmt: skip
    observed.pop_changes()
    Containment(cache=observed, memories=memories, metrics=Metrics()).restraint(record, T0 + 20)
    assert memory.given_back == case.given_back
    assert bool(observed.pop_changes().jobs) is (case.given_back is not None and case.before != case.given_back)


async def test_a_refusal_is_one_line_of_the_log_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    replica = await too_large_while_it_runs()
    suspend(replica)
    await run(replica, 10.0)
    said = [one for one in caplog.records if "WriteRefused" in one.getMessage()]
    assert (len(said) > 1, {one.exc_info for one in said}) == (True, {None})
    line = said[0].getMessage()
    assert line.startswith("red/bad is left alone for 1 s (WriteRefused): ")
    assert line.endswith(
        "etcdserver: request is too large;"
        " let the policy or webhook that this names allow the write, or make the object smaller"
    )
