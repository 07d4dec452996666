"""`attach` and `port-forward` to a rank by kubectl; `drill`, a preemption rehearsed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cotenant import names
from cotenant.cli import main
from cotenant.cli.tenants.access.attach import SHELL
from cotenant.controller.client.kube import PODS
from tests.cli.tenants.cluster import PlayedCluster


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Words with which the program became kubectl."""
    found: list[list[str]] = []
    monkeypatch.setattr("shutil.which", lambda _: "/bin/kubectl")
    monkeypatch.setattr("os.execv", lambda _, words: found.append(list(words)))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    return found


def pod(cluster: PlayedCluster, number: int, ranks: dict[int, list[str]], phase: str = "Running") -> None:
    uid = cluster.stored()["metadata"]["uid"]
    metadata = {
        "name": f"train-2-{number}",
        "namespace": "red",
        "labels": {names.LABEL_JOB_UID: uid, names.LABEL_ATTEMPT: "2"},
        "annotations": {names.ANNOTATION_PLACEMENT: json.dumps({"node": "n1", "ranks": ranks})},
    }
    cluster.kube.put(PODS, {"metadata": metadata, "status": {"phase": phase}})


@pytest.fixture
def running(cluster: PlayedCluster) -> PlayedCluster:
    cluster.job(status={"phase": "Running", "attempts": 2})
    pod(cluster, 0, {0: ["g0"], 1: ["g1"]})
    pod(cluster, 1, {2: ["g2"]})
    return cluster


@pytest.mark.parametrize(
    ("words", "kubectl"),
    [
        (
            ["attach", "--rank", "2", "train", "--", "nvidia-smi", "-L"],
            ["exec", "-i", "-t", "train-2-1", "-c", "worker", "--", "nvidia-smi", "-L"],
        ),
        (
            ["attach", "train", "--rank", "2", "--", "nvidia-smi", "-L"],
            ["exec", "-i", "-t", "train-2-1", "-c", "worker", "--", "nvidia-smi", "-L"],
        ),
        (
            ["attach", "train", "id", "-u"],
            ["exec", "-i", "-t", "train-2-0", "-c", "worker", "--", "id", "-u"],
        ),
        (
            ["attach", "train"],
            ["exec", "-i", "-t", "train-2-0", "-c", "worker", "--", *SHELL],
        ),
        (["port-forward", "train", "6006", "8080:80"], ["port-forward", "pod/train-2-0", "6006", "8080:80"]),
        (["port-forward", "--rank", "2", "train", "6006"], ["port-forward", "pod/train-2-1", "6006"]),
    ],
    ids=["a command", "flags behind the job", "without dashes", "a shell", "ports", "of another rank"],
)
def test_kubectl_goes_to_the_pod_of_the_rank(
    running: PlayedCluster, became: list[list[str]], words: list[str], kubectl: list[str]
) -> None:
    assert main.main([words[0], "--context", "c", *words[1:]]) == 0
    assert became == [["kubectl", "--namespace", "red", "--context", "c", *kubectl]]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("attach --rank 7 train", 3, "no rank 7 that runs; it has 0, 1, 2"),
        ("attach nobody", 3, "not found"),
        ("port-forward train http", 2, "http is no port"),
    ],
)
@pytest.mark.usefixtures("running")
def test_what_is_not_there_is_refused(capsys: pytest.CaptureFixture[str], words: str, code: int, says: str) -> None:
    assert main.main(words.split()) == code
    assert says in capsys.readouterr().err


def test_a_job_of_which_nothing_runs_is_refused(
    cluster: PlayedCluster, became: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.job(status={"phase": "Starting", "attempts": 2})
    pod(cluster, 0, {0: ["g0"]}, phase="Pending")
    assert main.main(["attach", "train"]) == 1
    assert "no pod of red/train runs: it is Starting" in capsys.readouterr().err


def test_without_kubectl_it_says_so(
    running: PlayedCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert main.main(["attach", "train"]) == 2
    assert "kubectl is not installed" in capsys.readouterr().err


# -- drill -------------------------------------------------------------------------------------------------------------


def progress(step: int, saved: int | None, at: str = "") -> dict[str, Any]:
    return {"step": step, "lastCheckpoint": {"step": saved, "at": at} if saved is not None else None}


@dataclass(frozen=True)
class Leaving:
    """One stage of the job's status after the other, 7 s in all."""

    cluster: PlayedCluster
    capsys: pytest.CaptureFixture[str]

    def by(self, *stages: dict[str, Any]) -> None:
        following: Iterator[dict[str, Any]] = iter(stages)
        self.cluster.on_sleep = lambda: self.cluster.becomes(**next(following))

    def printed(self) -> list[str]:
        return self.capsys.readouterr().out.splitlines()


@pytest.fixture
def played(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Leaving:
    clock = iter(range(0, 700, 7))
    monkeypatch.setattr("cotenant.cli.tenants.drill.monotonic", lambda: float(next(clock)))
    return Leaving(cluster, capsys)


AGAIN = "It waits for its place again: `kubectl cotenant why red/train`"
HOW = "SIGTERM reaches every rank: save there and end, within gracePeriod (docs/failures.md)."


@pytest.mark.parametrize(
    ("saved", "code", "lines"),
    [
        ((120, 131), 0, ["red/train saved step 131 and left in 7 s of 60s.", AGAIN]),
        (
            (120, 120),
            1,
            [
                "red/train left in 7 s of 60s and saved nothing new: it goes back to step 120, 11 steps are lost.",
                HOW,
                AGAIN,
            ],
        ),
        ((None, None), 1, ["red/train left in 7 s of 60s and saved nothing: it begins anew.", HOW, AGAIN]),
    ],
    ids=["saved", "nothing new", "nothing at all"],
)
def test_what_is_saved_in_time_is_told_and_the_job_goes_on(
    played: Leaving, saved: tuple[int | None, int | None], code: int, lines: list[str]
) -> None:
    before, after = (progress(131, step) for step in saved)
    cluster = played.cluster
    cluster.job(status={"phase": "Running", "progress": before}, checkpoint={"path": "s3://b"}, gracePeriod="60s")
    played.by({"phase": "Evicting"}, {"phase": "Suspended", "progress": after})
    assert main.main(["drill", "train", "--yes"]) == code
    assert played.printed() == lines
    assert cluster.writes == ["PATCH trainingjobs/train", "PATCH trainingjobs/train"]
    assert cluster.stored()["spec"]["suspend"] is False


def test_a_job_that_does_not_leave_in_time_goes_on_all_the_same(cluster: PlayedCluster) -> None:
    cluster.job(status={"phase": "Running"}, checkpoint={"path": "s3://b"})
    assert main.main(["drill", "train", "--yes", "--timeout", "2"]) == 1
    assert cluster.stored()["spec"]["suspend"] is False


def test_a_job_that_finishes_meanwhile_is_left_alone(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.job(status={"phase": "Running"}, checkpoint={"path": "s3://b"})
    cluster.on_sleep = lambda: cluster.becomes(phase="Succeeded")
    assert main.main(["drill", "train", "--yes"]) == 0
    assert "nothing was rehearsed" in capsys.readouterr().out
    assert cluster.writes == ["PATCH trainingjobs/train"]


@pytest.mark.parametrize(
    ("phase", "spec", "says"),
    [("Pending", {"checkpoint": {}}, "only a job that runs"), ("Running", {}, "names no checkpoint")],
)
def test_what_cannot_be_rehearsed_is_refused(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str], phase: str, spec: dict[str, Any], says: str
) -> None:
    cluster.job(status={"phase": phase}, **spec)
    assert main.main(["drill", "train", "--yes"]) == 1
    assert says in capsys.readouterr().err
    assert cluster.writes == []


@pytest.mark.parametrize("answer", ["", "n"])
def test_a_person_who_says_no_keeps_the_job(
    cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    cluster.job(status={"phase": "Running"}, checkpoint={"path": "s3://b"})
    assert main.main(["drill", "train"]) == 1
    assert cluster.writes == []


@pytest.mark.parametrize("words", [["attach", "train"], ["port-forward", "train", "6006"]])
def test_a_job_on_another_cluster_is_reached_there(
    cluster: PlayedCluster, became: list[list[str]], capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    there = {"name": "west", "namespace": "far", "job": "train-1", "attempts": 1}
    cluster.job(status={"phase": "Running", "cluster": there})
    assert main.main(words) == 1
    assert "red/train is on cluster west, as far/train-1: its pods are reached there" in capsys.readouterr().err
    assert became == []


@pytest.mark.parametrize("there", [["sh", "bash"], ["sh"]], ids=["with bash", "without bash"])
def test_a_shell_shows_the_errors_of_what_runs_in_it(tmp_path: Path, there: list[str]) -> None:
    """And so its prompt: bash writes it to stderr, and is interactive only if that is a terminal."""
    for name in there:
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    found = subprocess.run(
        [tmp_path / SHELL[0], *SHELL[1:]],
        input='nosuch; echo "${0##*/}"',
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("nosuch" in found.stderr, found.stdout) == (True, f"{there[-1]}\n")
