"""A sweep from its first trial to its last: what it makes, stops, suspends and says, whoever leads in between."""

from __future__ import annotations

import random
from typing import Any, Literal

import pytest

from cotenant import names
from cotenant.controller.client.kube import SWEEPS, TRAINING_JOBS, Outcome, Reply
from cotenant.controller.composites.composite import Composite, Observed
from cotenant.controller.composites.sweeps.sweep_kind import SweepKind
from tests.controller.composites.sweeps.played_sweep import World, sweep_document
from tests.controller.execution.replica import simulate_time
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


def test_a_sweep_is_a_composite() -> None:
    kind: Composite = SweepKind()
    assert (kind.kind, kind.computes) == ("Sweep", True)


def test_the_decision_is_a_function_of_the_document() -> None:
    document = sweep_document(algorithm="TPE")
    document["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    once, again = (SweepKind().decide(Observed(document=document), 0.0) for _ in range(2))
    assert once == again
    assert once.status is not None
    assert sorted(once.status["trials"]) == ["0", "1"]
    assert once.objects == (), "a trial stands in the status before its job is made"


async def test_as_many_trials_run_as_are_allowed_at_once() -> None:
    world = World()
    await world.run()
    assert sorted(world.jobs()) == ["lr-0", "lr-1"]
    world.finish("lr-0")
    await world.run()
    assert sorted(world.jobs()) == ["lr-0", "lr-1", "lr-2"]
    assert (world.status.phase, world.status.summary) == ("Running", "1/4")
    assert world.status.counts is not None
    assert (world.status.counts.waiting, world.status.counts.succeeded) == (2, 1)


async def test_a_job_is_its_owners_and_its_users() -> None:
    world = World()
    await world.run()
    job = world.jobs()["lr-1"]
    assert job["metadata"]["annotations"] == {names.ANNOTATION_USER: "ada"}
    assert job["metadata"]["labels"] == {names.LABEL_SWEEP: "lr", names.LABEL_TRIAL: "1"}
    assert [one["kind"] for one in job["metadata"]["ownerReferences"]] == ["Sweep"]
    assert job["spec"]["runtime"]["args"] == [f"--lr={world.status.trials['1'].parameters['lr']}"]


async def test_it_ends_with_the_best_trial_and_what_that_has() -> None:
    world = World(
        maxTrials=2,
        template={"spec": {**sweep_document()["spec"]["template"]["spec"], "checkpoint": {"path": "s3://b/c/"}}},
    )
    await world.run()
    world.finish("lr-0", 0.5)
    world.write_job(
        "lr-1",
        {
            "phase": "Succeeded",
            "results": {"loss": 0.25, "accuracy": 0.9},
            "progress": {"step": 70, "lastCheckpoint": {"step": 60}},
        },
    )
    await world.run()
    status = world.status
    assert (status.phase, status.reason, status.best_value) == ("Succeeded", "Completed", "0.25")
    assert status.best is not None
    assert (status.best.trial, status.best.job, status.best.checkpoint) == (1, "lr-1", "s3://b/c/lr-1")
    assert (status.best.checkpoint_step, status.best.results) == (60, {"loss": 0.25, "accuracy": 0.9})
    assert status.best.parameters == status.trials["1"].parameters
    assert status.message == "2 trials made: the best is lr-1 with loss = 0.25"
    assert [(one.type, one.status) for one in status.conditions] == [("Finished", "True")]


async def test_the_worse_of_a_rung_is_stopped_at_once_and_told_why() -> None:
    world = World(algorithm="ASHA", parallelism=3, maxTrials=3, earlyStop={"minSteps": 10, "factor": 3})
    await world.run()
    for name, loss in (("lr-0", 0.5), ("lr-1", 0.4), ("lr-2", 0.9)):
        world.start(name)
        await world.run(0.5)
        world.train(name, 12, loss)
        await world.run(0.5)
    said = "stopped by the sweep at step 12: 3rd of 3 at this rung"
    assert world.status.trials["2"].message == said
    assert world.jobs()["lr-2"]["metadata"]["annotations"][names.ANNOTATION_STOP] == said
    assert [names.ANNOTATION_STOP in world.jobs()[one]["metadata"]["annotations"] for one in ("lr-0", "lr-1")] == [
        False,
        False,
    ]
    world.obey()
    world.finish("lr-0", 0.3)
    world.finish("lr-1", 0.35)
    await world.run()
    counts = world.status.counts
    assert counts is not None
    assert (counts.succeeded, counts.stopped, counts.failed) == (2, 1, 0)
    assert world.status.phase == "Succeeded"


async def test_one_that_ended_before_anybody_looked_counts_at_the_rungs_that_it_passed() -> None:
    world = World(algorithm="ASHA", parallelism=2, maxTrials=2, earlyStop={"minSteps": 10, "factor": 2})
    await world.run()
    ended = {"phase": "Succeeded", "progress": {"step": 30, "metrics": {}}, "results": {"loss": 0.1}}
    world.write_job("lr-0", ended)
    await world.run()
    assert [(rung.step, rung.value) for rung in world.status.trials["0"].rungs] == [(30, 0.1), (30, 0.1)]
    world.start("lr-1")
    world.train("lr-1", 12, 0.9)
    await world.run()
    assert world.status.trials["1"].message == "stopped by the sweep at step 12: 2nd of 2 at this rung"


@pytest.mark.parametrize(
    ("progress", "stops"),
    [
        pytest.param({"step": 30, "of": 30}, False, id="it has made its last step"),
        pytest.param({"step": 30, "state": "done"}, False, id="its program has ended"),
        pytest.param({"step": 29, "of": 30}, True, id="one step is left"),
        pytest.param({"step": 30}, True, id="it has not said how many steps it makes"),
    ],
)
async def test_a_trial_with_no_step_left_is_not_stopped(progress: dict[str, Any], stops: bool) -> None:
    world = World(algorithm="ASHA", parallelism=2, maxTrials=2, earlyStop={"minSteps": 10, "factor": 2})
    await world.run()
    world.train("lr-0", 30, 0.1)
    await world.run()
    world.write_job("lr-1", {"phase": "Running", "progress": {"metrics": {"loss": 0.9}, **progress}})
    await world.run()
    assert world.status.trials["1"].phase == ("Stopped" if stops else "Running")


async def test_a_stopped_trial_that_ends_by_itself_first_keeps_its_result() -> None:
    world = World(algorithm="ASHA", parallelism=2, maxTrials=2, earlyStop={"minSteps": 10, "factor": 2})
    await world.run()
    world.train("lr-0", 12, 0.1)
    await world.run()
    world.train("lr-1", 12, 0.9)
    await world.run()
    assert world.status.trials["1"].phase == "Stopped"
    world.finish("lr-1", 0.05)
    await world.run()
    trial, best = world.status.trials["1"], world.status.best
    assert (trial.phase, trial.step, trial.value, trial.message) == ("Succeeded", 100, 0.05, "")
    assert best is not None
    assert best.job == "lr-1"


async def test_a_loss_that_is_not_a_number_is_stopped_at_its_first_rung() -> None:
    world = World(algorithm="ASHA", parallelism=1, earlyStop={"minSteps": 10})
    await world.run()
    world.write_job("lr-0", {"phase": "Running", "progress": {"step": 10, "metrics": {"loss": "nan"}}})
    await world.run()
    assert (world.status.trials["0"].phase, world.status.trials["0"].message) == (
        "Stopped",
        "stopped by the sweep at step 10: its loss is nan",
    )


async def test_too_many_failed_trials_end_it_and_those_that_run() -> None:
    world = World(maxFailedTrials=0)
    await world.run()
    world.fail("lr-0", "exit code 3: no such file")
    await world.run()
    assert (world.status.phase, world.status.reason) == ("Failed", "TooManyFailedTrials")
    assert world.status.message == (
        "1 trial failed, which is more than maxFailedTrials (0); the last of them: lr-0: exit code 3: no such file"
    )
    assert names.ANNOTATION_STOP in world.jobs()["lr-1"]["metadata"]["annotations"]
    world.obey()
    await world.run()
    assert sorted(world.jobs()) == ["lr-0", "lr-1"]


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        pytest.param(
            {"phase": "Pending", "pending": {"reason": "ExceedsLimit"}}, "ExceedsLimit", id="more than allowed"
        ),
        pytest.param({"phase": "Invalid", "reason": "Invalid"}, "Invalid", id="not as its profile allows"),
        pytest.param({"phase": "Pending"}, "", id="not decided yet"),
        pytest.param({"phase": "Running", "pending": {"reason": "WaitingForQuota"}}, "", id="another trial runs"),
    ],
)
async def test_a_sweep_of_which_no_trial_runs_says_what_its_trials_wait_for(job: dict[str, Any], reason: str) -> None:
    world = World(maxTrials=2)
    await world.run()
    world.write_job("lr-0", job)
    world.write_job("lr-1", job | {"phase": "Pending"})
    await world.run()
    why = f"; no trial runs: lr-0 waits with the reason {reason}; see `kubectl cotenant why lr-0`" if reason else ""
    assert world.status.message == f"0 of 2 trials are over{why}"
    assert (world.status.phase, world.status.reason) == ("Running", reason or "Running")
    assert [one.reason for one in world.status.conditions] == [reason or "Running"]


async def test_a_trial_without_the_metric_failed_and_is_told_which_there_are() -> None:
    world = World(objective={"metric": "acuracy", "goal": "Maximize"})
    await world.run()
    world.finish("lr-0", None)
    await world.run()
    assert world.status.trials["0"].message == (
        "lr-0 ended without the metric acuracy; it reported accuracy; did you mean accuracy?"
    )


async def test_a_job_that_was_deleted_is_a_failed_trial_and_is_not_made_again() -> None:
    world = World()
    await world.run()
    await world.kube.delete(TRAINING_JOBS, "lr-0", "red")
    await world.run()
    assert (world.status.trials["0"].phase, world.status.trials["0"].message) == (
        "Failed",
        "its TrainingJob lr-0 was deleted",
    )
    assert "lr-0" not in world.jobs()


async def test_a_suspended_sweep_suspends_its_jobs_and_resumes_them_once() -> None:
    world = World()
    await world.run()
    world.start("lr-0")
    world.edit(suspend=True)
    await world.run()
    assert [one["spec"].get("suspend") for one in world.jobs().values()] == [True, True]
    assert (world.status.phase, world.status.suspended) == ("Suspended", True)
    world.obey()
    world.edit(suspend=False)
    await world.run()
    assert [one["spec"].get("suspend") for one in world.jobs().values()] == [False, False]
    world.kube.put(TRAINING_JOBS, world.jobs()["lr-1"] | {"spec": world.jobs()["lr-1"]["spec"] | {"suspend": True}})
    await world.run()
    assert world.jobs()["lr-1"]["spec"]["suspend"], "a job that its owner holds back stays held back"


async def test_an_ensemble_is_one_trial_with_the_members_combined() -> None:
    world = World(
        algorithm="Grid",
        parameters=[{"name": "lr", "choices": ["0.1"]}],
        maxTrials=1,
        ensemble={"members": 3, "combine": "Median"},
    )
    await world.run()
    assert sorted(world.jobs()) == ["lr-0-0", "lr-0-1", "lr-0-2"]
    for member, loss in enumerate((0.5, 0.1, 0.3)):
        world.finish(f"lr-0-{member}", loss)
    await world.run()
    trial, best = world.status.trials["0"], world.status.best
    assert best is not None
    assert (trial.value, trial.members, best.job) == (0.3, {"0": 0.5, "1": 0.1, "2": 0.3}, "lr-0-1")


async def test_a_job_that_the_api_server_refuses_holds_up_no_news_of_the_others() -> None:
    world = World()
    quota = Reply(Outcome.REFUSED, message="exceeded quota: jobs", code=403)
    world.kube.faults.add(*(Fault(call="POST trainingjobs/lr-1", answer=quota) for _ in range(3)))
    await world.run(1.0)
    assert sorted(world.jobs()) == ["lr-0"]
    said = next(one.message for one in world.status.conditions if one.type != "Finished")
    assert "trainingjobs lr-1: exceeded quota: jobs" in said
    world.finish("lr-0")
    await world.run(30.0)
    assert world.status.trials["0"].phase == "Succeeded"
    assert "lr-1" in world.jobs()


async def test_more_trials_can_be_allowed_when_all_are_over() -> None:
    world = World(maxTrials=1)
    await world.run()
    world.finish("lr-0")
    await world.run()
    assert world.status.phase == "Succeeded"
    world.edit(maxTrials=2)
    await world.run()
    assert (world.status.phase, world.status.finished_at) == ("Running", None)
    assert sorted(world.jobs()) == ["lr-0", "lr-1"]


@pytest.mark.parametrize("seed", range(40))
async def test_whoever_is_killed_when_every_trial_is_run_once(seed: int) -> None:
    chance = random.Random(seed)
    algorithm = chance.choice(("Random", "TPE", "ASHA", "Grid"))
    spec: dict[str, Any] = {"earlyStop": {"minSteps": 10, "factor": 2}} if algorithm == "ASHA" else {}
    if algorithm == "Grid":
        spec["parameters"] = [{"name": "lr", "choices": [str(one) for one in range(9)]}]
    trials = chance.randint(1, 7)
    world = World(algorithm=algorithm, maxTrials=trials, parallelism=chance.randint(1, 4), maxFailedTrials=9, **spec)
    for _ in range(200):
        if chance.random() < 0.5:
            lost: Literal["request", "answer"] = "request" if chance.random() < 0.5 else "answer"
            world.kube.faults.add(
                Fault(call=chance.choice(("POST t*", "PATCH *")), nth=chance.randint(1, 3), lost=lost)
            )
        await world.run(chance.choice((0.011, 0.02, 0.06, 0.3, 2.0)))
        world.obey()
        for name, job in world.jobs().items():
            _move(world, name, job.get("status") or {}, chance)
        if world.status.phase == "Succeeded":
            break
    world.kube.faults.pending.clear()
    await world.run(30.0)
    assert world.status.phase in {"Succeeded", "Failed"}
    created = [call for call in world.kube.calls if call.startswith("POST trainingjobs/")]
    assert sorted(set(created)) == sorted(f"POST trainingjobs/lr-{number}" for number in range(trials))
    assert [len(uids) for uids in world.ran.values()] == [1] * len(world.ran)
    assert all(one.phase in {"Succeeded", "Stopped", "Failed"} for one in world.status.trials.values())


def _move(world: World, name: str, status: dict[str, object], chance: random.Random) -> None:
    """One job a bit further, or not."""
    phase = status.get("phase")
    if phase in {None, "Pending"} and chance.random() < 0.5:
        world.start(name)
    elif phase == "Running":
        progress = status.get("progress")
        step = progress["step"] if isinstance(progress, dict) else 0
        move = chance.random()
        if move < 0.3:
            world.train(name, step + chance.randint(1, 30), chance.random())
        elif move < 0.5:
            world.finish(name, chance.random())
        elif move < 0.55:
            world.fail(name)


NAMESAKE = {
    "apiVersion": names.API_VERSION,
    "kind": "TrainingJob",
    "metadata": {"name": "lr-0", "namespace": "red"},
    "spec": {"queue": "red"},
}


async def test_a_job_of_the_name_of_a_trial_is_told_and_left_alone_and_the_other_trials_go_on() -> None:
    world = World(parallelism=1, maxTrials=3)
    world.kube.put(TRAINING_JOBS, NAMESAKE)
    await world.run()
    said = "TrainingJob lr-0 is there already, and is not this sweep's: delete it"
    assert (world.status.trials["0"].phase, world.status.trials["0"].message) == ("Waiting", said)
    assert sorted(world.status.trials) == ["0", "1"], "one that waits for a name takes no place of another"
    assert world.status.message == f"0 of 3 trials are over; trial 0 waits: {said}"
    assert [one["type"] for one in world.document["status"]["conditions"]] == ["Finished"], "no quarantine"
    world.finish("lr-1")
    await world.run()
    world.finish("lr-2")
    await world.run()
    assert (world.status.phase, world.status.summary) == ("Running", "2/3")
    assert world.kube.stored(TRAINING_JOBS, "lr-0", "red")["spec"] == {"queue": "red"}  # type: ignore[index]
    assert world.kube.calls.count("POST trainingjobs/lr-0") <= 4, "a try for each replica, and none in between"


async def test_a_trial_begins_when_its_name_is_free() -> None:
    world = World(parallelism=1, maxTrials=1)
    world.kube.put(TRAINING_JOBS, NAMESAKE)
    await world.run()
    await world.kube.delete(TRAINING_JOBS, "lr-0", "red")
    await world.run(40.0)
    assert (world.status.trials["0"].message, world.status.trials["0"].seen) == ("", (0,))
    world.finish("lr-0")
    await world.run()
    assert world.status.phase == "Succeeded"


async def test_no_more_trials_run_at_once_when_names_come_free() -> None:
    world = World(parallelism=1, maxTrials=3)
    world.kube.put(TRAINING_JOBS, NAMESAKE)
    await world.run()
    await world.kube.delete(TRAINING_JOBS, "lr-0", "red")
    await world.run(40.0)
    assert sorted(world.jobs()) == ["lr-1"], "lr-1 has the place"


async def test_a_sweep_goes_when_its_time_is_over_and_not_before() -> None:
    world = World(maxTrials=1, ttlAfterFinished="60s")
    await world.run()
    world.finish("lr-0")
    await world.run(50.0)
    assert world.status.phase == "Succeeded"
    await world.run(20.0)
    assert world.kube.stored(SWEEPS, "lr", "red") is None


async def test_a_sweep_that_may_make_more_trials_stays() -> None:
    world = World(maxTrials=1, ttlAfterFinished="60s")
    await world.run()
    world.finish("lr-0")
    await world.run()
    world.edit(maxTrials=2)
    await world.run(120.0)
    assert (world.status.phase, world.status.finished_at) == ("Running", None)
