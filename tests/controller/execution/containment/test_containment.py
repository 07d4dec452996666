"""A job that the operator fails on is left alone, and only that one."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.client.kube import PODS, TRAINING_JOBS
from cotenant.controller.cluster import core_jobs
from cotenant.controller.execution.containment.containment import Containment, Restraint
from cotenant.controller.execution.loop import scheduling_loop
from cotenant.controller.execution.loop.observer import Observer
from cotenant.controller.execution.writes.action_executor import ActionExecutor
from cotenant.controller.execution.writes.pods import pod_creator
from cotenant.controller.execution.writes.pods.pod_creator import PodCreator
from cotenant.controller.informers import profile_index
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.quarantine import Stage
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state import demand_history
from tests.controller.builders import T0, job_document
from tests.controller.execution.containment.defects import Defect, DefectError, conditions, quarantined, run
from tests.controller.execution.replica import (
    Replica,
    new_kube,
    phase,
    start_pods,
    status,
    submit,
)

pytestmark = pytest.mark.looptime


async def finish_pods(replica: Replica, *jobs: str) -> None:
    for pod in (await replica.kube.list(PODS)).items:
        if pod["metadata"]["ownerReferences"][0]["name"] in jobs:
            ended = {"name": "worker", "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:30Z"}}}
            replica.kube.put(PODS, pod | {"status": {"phase": "Succeeded", "containerStatuses": [ended]}})


DEFECTS = [
    pytest.param(core_jobs, "to_job", "ConversionFailed", id="its conversion for the core"),
    pytest.param(demand_history, "worker_shape", "ConversionFailed", id="its demand"),
    pytest.param(Observer, "observe", "ReconcileFailed", id="its observation"),
    pytest.param(scheduling_loop, "reconcile", "ReconcileFailed", id="its reconcile"),
    pytest.param(None, "schedule", "SchedulingFailed", id="the decision"),
    pytest.param(ActionExecutor, "admit", "ExecutionFailed", id="its admission"),
    pytest.param(PodCreator, "create", "ExecutionFailed", id="the making of its objects"),
    pytest.param(pod_creator, "attempt_of", "ExecutionFailed", id="its manifests"),
]


@pytest.mark.parametrize(("owner", "name", "reason"), DEFECTS)
async def test_a_job_that_breaks_the_operator_is_quarantined_while_others_finish_and_starts_once_that_is_mended(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, reason: str
) -> None:
    replica = Replica()
    defect = Defect(monkeypatch, owner or replica.operator.loop, name)
    for job in ("alpha", "bad", "omega"):
        submit(replica.kube, job, workers=1)
    await run(replica, 10.0)
    await start_pods(replica.kube)
    await run(replica, 5.0)
    await finish_pods(replica, "alpha", "omega")
    await run(replica, 15.0)
    times = defect.times
    assert [phase(replica.kube, job) for job in ("alpha", "omega")] == ["Succeeded", "Succeeded"]
    assert (conditions(replica)["Quarantined"], quarantined(replica)) == (("True", reason), 1.0)
    assert f"DefectError: in {name}" in str(status(replica.kube, "bad"))
    assert times < 30, "it is not tried in every cycle"
    defect.mended = True
    await run(replica, 45.0)
    assert (phase(replica.kube, "bad"), conditions(replica)["Quarantined"], quarantined(replica)) == (
        "Starting",
        ("False", "Lifted"),
        0.0,
    )


async def test_the_pauses_between_two_tries_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    defect = Defect(monkeypatch, scheduling_loop, "reconcile")
    submit(replica.kube, "bad", workers=1)
    counts = []
    for _ in range(4):
        before = defect.times
        await run(replica, 300.0)
        counts.append(defect.times - before)
    assert (counts[0] <= 12, counts[1:]) == (True, [1, 1, 1])


@pytest.mark.parametrize("pause", [130.0, 600.0], ids=["right after a failure", "long after"])
async def test_a_job_that_is_edited_is_tried_within_seconds(monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
    replica = Replica()
    defect = Defect(monkeypatch, scheduling_loop, "reconcile")
    document = submit(replica.kube, "bad", workers=1)
    await run(replica, pause)
    defect.mended = True
    stored = replica.kube.stored(TRAINING_JOBS, "bad", "red")
    assert stored is not None
    replica.kube.put(TRAINING_JOBS, stored | {"metadata": document["metadata"] | {"generation": 2}})
    await run(replica, 10.0)
    assert (phase(replica.kube, "bad"), conditions(replica)["Quarantined"]) == ("Starting", ("False", "Lifted"))


async def test_the_next_leader_leaves_a_quarantined_job_alone_first(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = new_kube()
    defect = Defect(monkeypatch, scheduling_loop, "reconcile")
    submit(kube, "bad", workers=1)
    await run(Replica(kube), 100.0)
    times, replica = defect.times, Replica(kube)
    await run(replica, 60.0)
    assert (defect.times, quarantined(replica)) == (times, 1.0)
    await run(replica, 60.0)
    assert defect.times == times + 1


async def test_a_replica_that_leads_no_more_counts_no_quarantines_and_finds_them_again_when_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = Replica()
    defect = Defect(monkeypatch, scheduling_loop, "reconcile")
    submit(replica.kube, "bad", workers=1)
    await run(replica, 30.0)
    counts = [quarantined(replica)]
    replica.lose()
    await run(replica, 5.0)
    counts.append(quarantined(replica))
    times, replica.leads = defect.times, True
    await run(replica, 15.0)
    assert ([*counts, quarantined(replica)], defect.times) == ([1.0, 0.0, 1.0], times)


async def test_gpus_of_a_quarantined_job_that_runs_stay_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    submit(replica.kube, "bad", workers=2)
    await run(replica, 5.0)
    await start_pods(replica.kube)
    await run(replica, 5.0)
    Defect(monkeypatch, core_jobs, "to_job")
    Defect(monkeypatch, scheduling_loop, "reconcile")
    document = replica.kube.stored(TRAINING_JOBS, "bad", "red")
    assert document is not None
    replica.kube.put(TRAINING_JOBS, document | {"spec": document["spec"] | {"maxRuntime": "1h"}})
    submit(replica.kube, "alpha", workers=2)
    submit(replica.kube, "omega", workers=2)
    await run(replica, 60.0)
    assert {name: phase(replica.kube, name) for name in ("bad", "alpha", "omega")} == {
        "bad": "Running",
        "alpha": "Starting",
        "omega": "Pending",
    }
    next_leader = Replica(replica.kube)
    await run(next_leader, 10.0)
    assert sorted(next_leader.held()) == ["red/alpha", "red/bad"]


async def test_a_decision_that_fails_with_a_running_job_goes_on_with_what_that_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = Replica()
    submit(replica.kube, "bad", workers=2)
    await run(replica, 5.0)
    await start_pods(replica.kube)
    await run(replica, 5.0)
    schedule = replica.operator.loop.schedule

    def fail(snapshot: Snapshot) -> Any:
        if any(job.key == "red/bad" and job.preemptible for job in snapshot.jobs):
            raise DefectError
        return schedule(snapshot)

    replica.operator.loop.schedule = fail
    submit(replica.kube, "alpha", workers=2)
    submit(replica.kube, "omega", workers=2)
    await run(replica, 20.0)
    assert [phase(replica.kube, name) for name in ("bad", "alpha", "omega")] == ["Running", "Starting", "Pending"]


async def test_a_failure_that_no_job_can_be_blamed_for_ends_the_process() -> None:
    replica = Replica()

    def fail(snapshot: Snapshot) -> Any:
        raise DefectError

    replica.operator.loop.schedule = fail
    submit(replica.kube, "alpha")
    with pytest.raises(DefectError):
        await run(replica, 5.0)


async def test_a_document_that_breaks_its_reader_is_invalid_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    Defect(monkeypatch, profile_index, "read_job")
    submit(replica.kube, "bad", workers=1)
    submit(replica.kube, "omega", workers=1)
    await run(replica, 10.0)
    assert (phase(replica.kube, "bad"), status(replica.kube, "bad")["message"], phase(replica.kube, "omega")) == (
        "Invalid",
        "the document cannot be read: DefectError: in read_job",
        "Starting",
    )


async def test_a_job_is_left_alone_then_tried_and_let_go_once_a_try_has_worked() -> None:
    """A failure at second 0, a pause of one, and two seconds without another failure."""
    observed = ObjectCache(clock=lambda: T0)
    observed.put(TRAINING_JOBS, job_document())
    (record,) = observed.jobs.values()
    containment = Containment(cache=observed, memories=JobMemories(), metrics=Metrics())
    assert containment.restraint(record, T0) == Restraint()

    containment.contain(record.id, Stage.RECONCILE, DefectError("odd"), T0)
    seen = []
    for after_s in (0.0, 0.5, 1.0, 2.9, 3.0, 3.5):
        now = containment.restraint(record, T0 + after_s)
        reported = None if now.to_report is None else "Lifted" if now.to_report.lifted else "Quarantined"
        seen.append((after_s, now.left_alone, reported, None if now.look_at is None else now.look_at - T0))

    assert seen == [
        (0.0, True, "Quarantined", 1.0),
        (0.5, True, None, 1.0),
        (1.0, False, None, 3.0),
        (2.9, False, None, 3.0),
        (3.0, False, "Lifted", None),
        (3.5, False, None, None),
    ]
