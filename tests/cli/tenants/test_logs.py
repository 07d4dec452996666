"""`cotenant logs`: whose line is whose, which attempt is read, and what is left of one whose pods are gone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from cotenant import names
from cotenant.cli.errors import UserError
from cotenant.cli.main import build_parser
from cotenant.cli.tenants import logs
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.refusals import BadRequestError

JOB = {
    "metadata": {"name": "train", "namespace": "red", "uid": "u"},
    "status": {
        "attempts": 3,
        "placement": {},
        "lastExit": {"attempt": 2, "code": 1, "reason": "UserError", "message": "rank 1 failed", "tail": ["boom"]},
        "earlierExits": [{"attempt": 1, "code": 143, "reason": "Preempted", "tail": ["saved", "bye"]}],
    },
}

ELSEWHERE: dict[str, Any] = {
    **JOB,
    "status": {
        "phase": "Running",
        "cluster": {"name": "west", "namespace": "red", "job": "train-1", "attempts": 2},
    },
}
THERE = "/apis/query.cotenant.dev/v1alpha1/namespaces/red/remotejobs/train"


class Pods:
    """Stands in for a Connection: pods with what they have printed, in chunks; `waits`: for a container to start."""

    def __init__(self, pods: dict[str, tuple[list[int], list[bytes]]], waits: int = 0) -> None:
        self.pods, self.waits = pods, waits
        self.selectors: list[str] = []
        self.listed: list[str] = []
        self.asked: list[dict[str, Any]] = []

    def read(self, path: str) -> dict[str, Any]:
        if path.rsplit("/", maxsplit=1)[-1] in self.pods:
            return {"status": {"phase": "Succeeded"}}
        self.listed.append(urlsplit(path).path)
        self.selectors += parse_qs(urlsplit(path).query).get("labelSelector", [])
        noted = {
            name: {names.ANNOTATION_PLACEMENT: json.dumps({"ranks": {str(rank): [] for rank in ranks}})}
            if ranks
            else {}
            for name, (ranks, _) in self.pods.items()
        }
        return {"items": [{"metadata": {"name": name, "annotations": found}} for name, found in noted.items()]}

    def stream(self, path: str, *, endless: bool) -> Iterator[bytes]:
        if self.waits:
            self.waits -= 1
            raise BadRequestError("its container waits to start")
        url = urlsplit(path)
        query = {key: one for key, (one,) in parse_qs(url.query).items()}
        self.asked.append({"path": url.path, "endless": endless, **query})
        return iter(next(one for name, (_, one) in self.pods.items() if name in url.path.split("/")))


def show(pods: Pods, job: dict[str, Any], args: argparse.Namespace) -> int:
    return logs.show(cast("Connection", pods), job, args)


def parsed(*flags: str) -> argparse.Namespace:
    return build_parser().parse_args(["logs", "train", *flags])


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PAUSE_S", 0.0)


def test_each_line_has_its_rank_however_it_is_cut_on_the_way(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    chunks = {
        "train-3-0": ([0, 1], [b"[rank 0] a\n[ran", b"k 1] b\ncotenant: all ranks ", b"have met\n"]),
        "train-3-1": ([2], [b"c\nno end"]),
        "train-3-s0": ([], [b"serving\n"]),
    }
    core = Pods(chunks)
    assert show(core, JOB, parsed()) == 0
    assert sorted(capsysbinary.readouterr().out.splitlines()) == sorted(
        [
            b"[rank 0] a",
            b"[rank 1] b",
            b"[train-3-0] cotenant: all ranks have met",
            b"[rank 2] c",
            b"[rank 2] no end",
            b"[train-3-s0] serving",
        ]
    )
    assert core.selectors == [f"{names.LABEL_JOB_UID}=u,{names.LABEL_ATTEMPT}=3"]


@pytest.mark.parametrize(
    ("flags", "asked", "lines"),
    [
        (("--rank", "2", "--tail", "5"), {"endless": False, "tailLines": "5"}, b"c\n"),
        (("--rank", "1"), {"endless": False}, b"[rank 1] b\n[train-3-0] cotenant: x\n"),
    ],
)
def test_of_one_rank_only_its_pod_is_read(
    capsysbinary: pytest.CaptureFixture[bytes], flags: tuple[str, ...], asked: dict[str, Any], lines: bytes
) -> None:
    core = Pods(
        {"train-3-0": ([0, 1], [b"[rank 0] a\n[rank 1] b\ncotenant: x\n"]), "train-3-1": ([2], [b"c\n"])}, waits=0
    )
    show(core, JOB, parsed(*flags))
    assert capsysbinary.readouterr().out == lines
    pod = "train-3-0" if flags[1] == "1" else "train-3-1"
    assert core.asked == [{"path": f"/api/v1/namespaces/red/pods/{pod}/log", "container": "worker", **asked}]


def test_a_pod_that_has_not_started_is_waited_for_where_its_log_is_followed(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert show(Pods({"train-3-0": ([0], [b"2026-01-01T00:00:00.1Z a\n"])}, waits=2), JOB, parsed("-f")) == 0
    assert capsysbinary.readouterr().out == b"a\n"
    with pytest.raises(BadRequestError):
        show(Pods({"train-3-0": ([0], [])}, waits=1), JOB, parsed())


def test_a_job_that_does_not_start_says_why_it_prints_nothing() -> None:
    blocked = {"phase": "Starting", "message": "configmap c not found"}
    starting: dict[str, Any] = {**JOB, "status": {"attempts": 3, "placement": {}, **blocked}}
    with pytest.raises(
        UserError, match="red/train prints nothing yet, it is Starting: configmap c not found; --follow"
    ):
        show(Pods({"train-3-0": ([0], [])}, waits=1), starting, parsed())


@pytest.mark.parametrize("flags", [(), ("-f",)], ids=["read", "followed"])
def test_what_a_job_on_another_cluster_prints_is_asked_of_the_operator(
    capsysbinary: pytest.CaptureFixture[bytes], flags: tuple[str, ...]
) -> None:
    core = Pods({"train-1-2-0": ([0], [b"2026-01-01T00:00:00.1Z a\n" if flags else b"a\n"])})
    assert show(core, ELSEWHERE, parsed(*flags)) == 0
    assert capsysbinary.readouterr().out == b"a\n"
    assert core.listed[0] == f"{THERE}/pods"
    assert {one["path"] for one in core.asked} == {f"{THERE}/log/train-1-2-0"}


@pytest.mark.parametrize(
    ("flags", "lines", "end"),
    [
        (("--previous",), b"boom\n", "the pods of attempt 2 are gone; it ended so: rank 1 failed"),
        (("--attempt", "1"), b"saved\nbye\n", "the pods of attempt 1 are gone; it ended so: Preempted (143)"),
    ],
)
def test_of_an_attempt_whose_pods_are_gone_its_last_lines_are_printed(
    capsysbinary: pytest.CaptureFixture[bytes], flags: tuple[str, ...], lines: bytes, end: str
) -> None:
    assert show(Pods({}), JOB, parsed(*flags)) == 0
    assert tuple(capsysbinary.readouterr()) == (lines, f"cotenant: {end}\n".encode())


@pytest.mark.parametrize(
    ("core", "job", "flags", "said"),
    [
        (Pods({}), JOB, ("--attempt", "4"), "there is no attempt 4 of train: it has had 3 of them"),
        (Pods({}), {**JOB, "status": {"reason": "WaitingForGPUs"}}, (), "it has not started yet (WaitingForGPUs)"),
        (Pods({}), ELSEWHERE, ("--attempt", "3"), "there is no attempt 3 of train: it has had 2 of them"),
        (Pods({}), JOB, (), "the pods of attempt 3 are gone, and nothing is known of its end any more"),
        (Pods({"train-3-0": ([0], [])}), JOB, ("--rank", "7"), "attempt 3 of train has no rank 7"),
        (Pods({f"train-3-{n}": ([n], []) for n in range(65)}), JOB, (), "65 pods are too many to read at once"),
    ],
)
def test_what_cannot_be_shown_is_said(core: Pods, job: dict[str, Any], flags: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError) as refused:
        show(core, job, parsed(*flags))
    assert said in str(refused.value)
