"""`stop`, `resume` and `retry`: what they write, what they wait for, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.tenants.retry import again, next_name
from cotenant.controller.client.kube import SWEEPS
from tests.cli.tenants.cluster import PlayedCluster


def test_a_running_job_is_asked_to_save_and_its_saved_step_is_told(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.job(status={"phase": "Running"}, gracePeriod="2m")
    stages = iter(({"phase": "Evicting"}, {"phase": "Suspended", "progress": {"lastCheckpoint": {"step": 120}}}))
    cluster.on_sleep = lambda: cluster.becomes(**next(stages))
    assert main.main(["stop", "train", "--wait"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "red/train was asked to save and to end; it has 2m for that.",
        "red/train has given its GPUs back after 0 s; the checkpoint of step 120 is kept",
    ]
    assert cluster.writes == ["PATCH trainingjobs/train"]
    assert cluster.stored()["spec"]["suspend"] is True


def test_a_job_that_waits_leaves_the_line_and_one_that_was_stopped_is_left_alone(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.job("waits")
    cluster.job("before", suspend=True)
    assert main.main(["stop", "red/waits", "tj/before"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "red/waits does not wait any more.",
        "red/before was stopped before.",
    ]
    assert cluster.writes == ["PATCH trainingjobs/waits"]


def test_a_namesake_that_came_since_is_not_stopped(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.job(status={"phase": "Running"})
    read = cluster.read

    def read_and_replace(path: str) -> dict[str, Any]:
        found = read(path)
        cluster.job()
        return found

    monkeypatch.setattr(cluster, "read", read_and_replace)
    assert main.main(["stop", "train"]) == 1
    assert "suspend" not in cluster.stored()["spec"]


@pytest.mark.parametrize("verb", ["stop", "resume"])
def test_a_job_that_is_over_is_neither_stopped_nor_resumed(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    cluster.job(status={"phase": "Failed"})
    assert main.main([verb, "train"]) == 1
    assert "red/train has finished (Failed): " in capsys.readouterr().err
    assert cluster.writes == []


@pytest.mark.parametrize(("verb", "instead"), [("stop", "stop"), ("resume", "resume"), ("retry", "resume")])
def test_the_job_of_a_session_is_stopped_and_run_again_by_its_session(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str], verb: str, instead: str
) -> None:
    cluster.job("nb-session", suspend=verb == "resume", status={"phase": "Failed"})
    cluster.stored("nb-session")["metadata"]["ownerReferences"] = [
        {"kind": "Session", "name": "nb", "controller": True}
    ]
    assert main.main([verb, "nb-session"]) == 1
    told = f"red/nb-session is the job of session nb: kubectl cotenant session {instead} red/nb"
    assert told in capsys.readouterr().err
    assert cluster.writes == []


def test_a_job_that_does_not_end_in_time_is_told_with_its_message(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.job(status={"phase": "Running", "message": "it trains"})
    assert main.main(["stop", "train", "--wait", "--timeout", "3"]) == 1
    assert "red/train is Running after 3 s: it trains" in capsys.readouterr().err


def test_a_job_that_is_not_there_is_not_found(cluster: PlayedCluster) -> None:
    assert main.main(["stop", "nobody"]) == 3


@pytest.mark.parametrize(
    ("phase", "code", "said"),
    [
        ("Running", 0, "red/train is Running."),
        ("Succeeded", 0, "red/train is Succeeded."),
        ("Failed", 1, "red/train has failed: boom"),
    ],
)
def test_a_job_goes_on_and_is_waited_for(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str], phase: str, code: int, said: str
) -> None:
    cluster.job(status={"phase": "Suspended"}, suspend=True)
    cluster.on_sleep = lambda: cluster.becomes(phase=phase, message="boom")
    assert main.main(["resume", "train", "--wait"]) == code
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == "red/train waits for its place again."
    assert said in (printed.err if code else printed.out)
    assert cluster.stored()["spec"]["suspend"] is False


def test_who_was_not_stopped_is_not_resumed(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.job(status={"phase": "Running"})
    assert main.main(["resume", "train"]) == 0
    assert capsys.readouterr().out == "red/train was not stopped: it is Running.\n"
    assert cluster.writes == []


# -- retry -------------------------------------------------------------------------------------------------------------


def test_a_failed_job_is_run_again_from_its_checkpoint_under_the_next_name(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    volume = {"persistentVolumeClaim": {"claimName": "c"}}
    cluster.job(
        status={"phase": "Failed", "attempts": 3}, checkpoint={"volume": volume}, maxRuntime="1h", suspend=False
    )
    cluster.job("train-2")
    assert main.main(["retry", "train", "--set", "maxRuntime=12h", "--set", "gpu.count=2"]) == 0
    assert "red/train-3 goes on from the checkpoint of red/train" in capsys.readouterr().out
    made = cluster.stored("train-3")
    assert made["spec"] == {
        "queue": "red",
        "gpu": {"count": 2},
        "runtime": {"command": ["python", "train.py"]},
        "checkpoint": {"volume": volume, "path": "train"},
        "maxRuntime": "12h",
    }
    assert "status" not in made
    assert cluster.stored()["spec"]["maxRuntime"] == "1h"


def test_a_job_that_is_not_over_is_not_run_twice(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.job(status={"phase": "Running"})
    assert main.main(["retry", "train"]) == 1
    assert "red/train is Running, and not over" in capsys.readouterr().err
    assert cluster.writes == []


JOB: dict[str, Any] = {
    "apiVersion": "v",
    "kind": "TrainingJob",
    "metadata": {
        "name": "train",
        "namespace": "red",
        "uid": "u",
        "labels": {"team": "a"},
        "annotations": {"cotenant.dev/user": "ann", "kubectl.kubernetes.io/last-applied-configuration": "{}", "x": "y"},
        "ownerReferences": [{}],
    },
    "spec": {"checkpoint": {"path": "s3://bucket/runs/"}},
    "status": {"phase": "Failed"},
}


@pytest.mark.parametrize(
    ("checkpoint", "fresh", "path"),
    [
        ({"path": "s3://bucket/runs/"}, False, "s3://bucket/runs/"),
        ({"path": "s3://bucket/runs/"}, True, "s3://bucket/runs/new"),
        ({"volume": {}}, False, "train"),
        ({"volume": {}}, True, "new"),
    ],
)
def test_the_checkpoint_is_that_of_the_old_one_or_one_of_its_own(
    checkpoint: dict[str, Any], fresh: bool, path: str
) -> None:
    assert again(JOB | {"spec": {"checkpoint": checkpoint}}, "new", fresh=fresh)["spec"]["checkpoint"]["path"] == path


def test_what_is_the_tenants_own_is_copied_and_nothing_else() -> None:
    found = again(JOB, "new", fresh=False)
    own = {"name": "new", "namespace": "red", "labels": {"team": "a"}, "annotations": {"x": "y"}}
    assert (found["metadata"], "status" in found) == (own, False)


@pytest.mark.parametrize(
    ("name", "taken", "new"),
    [
        ("train", (), "train-2"),
        ("train", ("train-2", "train-3"), "train-4"),
        ("train-7", (), "train-8"),
        ("run-2024-x", (), "run-2024-x-2"),
        ("a" * 50, (), "a" * 48 + "-2"),
        ("a" * 47 + "-9", ("a" * 47 + "-10",), "a" * 47 + "-11"),
    ],
)
def test_the_next_name_is_the_first_number_that_is_free(name: str, taken: tuple[str, ...], new: str) -> None:
    assert next_name(name, taken.__contains__) == new
    assert len(new) <= 50


def test_a_trial_that_is_run_again_takes_no_name_of_another_trial(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.job("lr-0", status={"phase": "Failed"})
    cluster.stored("lr-0")["metadata"]["ownerReferences"] = [{"kind": "Sweep", "name": "lr", "controller": True}]
    assert main.main(["retry", "lr-0"]) == 0
    assert "red/lr-0-2 is a new run of red/lr-0" in capsys.readouterr().out


SWEEP = {"metadata": {"name": "lr", "namespace": "red", "uid": "s"}, "spec": {}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("verb", "before", "said"),
    [
        ("stop", False, "sweep red/lr: its trials save and end, and it begins no other."),
        ("stop", True, "sweep red/lr was stopped before."),
        ("resume", True, "sweep red/lr: its trials wait for their places again."),
        ("resume", False, "sweep red/lr was not stopped: it is Running."),
    ],
)
def test_a_sweep_is_stopped_and_resumed_as_a_whole(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str], verb: str, before: bool, said: str
) -> None:
    cluster.kube.put(SWEEPS, SWEEP | {"spec": {"suspend": before}})
    assert main.main([verb, "sw/lr"]) == 0
    assert capsys.readouterr().out.splitlines() == [said]
    stored = cluster.kube.stored(SWEEPS, "lr", "red")
    assert stored is not None
    assert stored["spec"]["suspend"] is (verb == "stop")


@pytest.mark.parametrize(
    ("words", "phase", "said"),
    [
        (["stop", "sweep/red/lr"], "Succeeded", "has finished (Succeeded): nothing of it runs"),
        (["resume", "sw/lr"], "Failed", "has finished (Failed): a larger spec.maxTrials lets it try more"),
        (["stop", "sw/lr", "--wait"], "Running", "watch the trials with `kubectl cotenant sweep sw/lr -w`"),
    ],
)
def test_a_sweep_that_cannot_be_stopped_so_says_what_to_do(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str], words: list[str], phase: str, said: str
) -> None:
    cluster.kube.put(SWEEPS, SWEEP | {"status": {"phase": phase}})
    assert main.main(words) == 1
    assert said in capsys.readouterr().err
    assert cluster.writes == []
