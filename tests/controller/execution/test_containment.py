"""Failures that one job provokes, wherever they come up, with everything of the operator: the others go on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from cotenant.controller.client.kube import GPU_NODES, PODS, TRAINING_JOBS, Outcome, Reply
from cotenant.controller.cluster import core_jobs
from cotenant.controller.execution import pod_creator, scheduling_loop
from cotenant.controller.execution.containment import Containment, Restraint
from cotenant.controller.execution.executor import Executor
from cotenant.controller.execution.observer import Observer
from cotenant.controller.execution.pod_creator import PodCreator
from cotenant.controller.informers import cache
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.quarantine import Quarantine, Stage
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import Phase
from cotenant.core.snapshot import accounting
from cotenant.core.snapshot.snapshot import Snapshot
from tests.controller.builders import T0, admitted, job_document, pod_document
from tests.controller.execution.replica import (
    NODE_NAMES,
    Replica,
    end_pods,
    gpu_node,
    granted,
    new_kube,
    phase,
    simulated_now,
    start_pods,
    status,
    submit,
    writes,
)
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime

BEAT_S = 5.0
COMMIT = "PATCH trainingjobs/bad/status"
TOO_LARGE = Reply(Outcome.REFUSED, message="etcdserver: request is too large", code=413)


class DefectError(Exception):
    pass


class Defect:
    """Makes a function raise whenever it is about the job `bad`, until it is mended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.mended, self.times = False, 0
        real = getattr(owner, name)

        def strike(args: tuple[Any, ...]) -> None:
            if not self.mended and any(is_about_bad(arg) for arg in args):
                self.times += 1
                raise DefectError(f"in {name}")

        def function(*args: Any, **named: Any) -> Any:
            strike(args)
            return real(*args, **named)

        async def coroutine(*args: Any, **named: Any) -> Any:
            strike(args)
            return await real(*args, **named)

        monkeypatch.setattr(owner, name, coroutine if inspect.iscoroutinefunction(real) else function)


def is_about_bad(arg: Any) -> bool:
    if isinstance(arg, Snapshot):
        return any(is_about_bad(job) for job in arg.jobs if job.workers_max > job.workers_min or job.placement is None)
    if isinstance(arg, dict):
        return bool(arg.get("metadata", {}).get("name") == "bad")
    return "red/bad" in {getattr(one, "key", None) for one in (arg, getattr(arg, "record", None))}


async def run(replica: Replica, seconds: float) -> None:
    """Run while agents go on reporting their nodes, with fewer looks at the watch than short tests take."""
    for _ in range(int(seconds / BEAT_S)):
        for name in NODE_NAMES:
            replica.kube.put(GPU_NODES, gpu_node(name, at=simulated_now()))
        await replica.run(BEAT_S, watch_s=0.5)


def conditions(replica: Replica, name: str = "bad") -> dict[str, tuple[str, str]]:
    """Type → status and reason."""
    return {one["type"]: (one["status"], one["reason"]) for one in status(replica.kube, name).get("conditions", ())}


def quarantined(replica: Replica) -> float:
    """As the metric shows it."""
    samples = (sample for metric in replica.operator.metrics.registry.collect() for sample in metric.samples)
    return sum(one.value for one in samples if one.name == "cotenant_jobs_quarantined")


async def finish_pods(replica: Replica, *jobs: str) -> None:
    for pod in (await replica.kube.list(PODS)).items:
        if pod["metadata"]["ownerReferences"][0]["name"] in jobs:
            ended = {"name": "worker", "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:30Z"}}}
            replica.kube.put(PODS, pod | {"status": {"phase": "Succeeded", "containerStatuses": [ended]}})


DEFECTS = [
    pytest.param(core_jobs, "to_job", "ConversionFailed", id="its conversion for the core"),
    pytest.param(accounting, "worker_shape", "ConversionFailed", id="its accounting"),
    pytest.param(Observer, "observe", "ReconcileFailed", id="its observation"),
    pytest.param(scheduling_loop, "reconcile", "ReconcileFailed", id="its reconcile"),
    pytest.param(None, "schedule", "SchedulingFailed", id="the decision"),
    pytest.param(Executor, "admit", "ExecutionFailed", id="its admission"),
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


async def test_a_document_that_breaks_its_reader_is_invalid_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    Defect(monkeypatch, cache, "read_job")
    submit(replica.kube, "bad", workers=1)
    submit(replica.kube, "omega", workers=1)
    await run(replica, 10.0)
    assert (phase(replica.kube, "bad"), status(replica.kube, "bad")["message"], phase(replica.kube, "omega")) == (
        "Invalid",
        "the document cannot be read: DefectError: in read_job",
        "Starting",
    )


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
