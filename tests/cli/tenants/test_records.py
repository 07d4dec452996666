"""`history`, `eff` and `cost`: runs as the operator has recorded them, as a person reads them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.tenants import eff, history
from cotenant.controller.client.kube import LOCAL_QUEUES
from tests.cli.tenants.cluster import PlayedCluster


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def run(name: str = "train", namespace: str = "red", **status: Any) -> dict[str, Any]:
    known = {
        "outcome": "Succeeded",
        "queue": "q",
        "user": "ann",
        "workers": 2,
        "gpu": "0.4",
        "gpuClass": "H100",
        "gpuSeconds": 6_390,
        "runSeconds": 7_987,
        "finishedAt": "2026-01-02T03:04:05Z",
        "attempts": 1,
        "failures": 0,
        "faults": 0,
        "restarts": 0,
        "steps": 400,
        "stepsOf": 400,
        "memoryPeakMiB": 0,
    }
    return {"metadata": {"name": name, "namespace": namespace, "uid": "u"}, "status": known | status}


def test_runs_are_a_table_that_outlives_their_jobs(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers["/namespaces/red/runs"] = {"items": [run(), run("other", outcome="Failed", workers=1, gpu="2")]}
    assert main.main(["history", "--limit", "7"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "NAME    OUTCOME     QUEUE   ASKED          RAN     GPU-HOURS   ATTEMPTS   FINISHED",
        "train   Succeeded   q       2 × 0.4 H100   2h13m   1.78        1          2026-01-02 03:04",
        "other   Failed      q       2 H100         2h13m   1.78        1          2026-01-02 03:04",
    ]
    assert cluster.asked == [("/namespaces/red/runs?limit=7", None)]


def test_everywhere_is_asked_without_a_namespace(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers["/runs"] = {"items": [run(namespace="blue")]}
    assert main.main(["history", "-A"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("blue        train")


def test_nothing_that_is_over_is_said(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers["/namespaces/red/runs"] = {"items": []}
    assert main.main(["history"]) == 0
    assert capsys.readouterr().out == "No run is over yet.\n"


def test_what_happened_to_one_run_is_told_in_its_order() -> None:
    failed = run(
        outcome="Failed",
        message="rank 1 failed",
        failures=1,
        attempts=2,
        steps=12,
        results={"loss": 0.5},
        timeline=[
            {"at": "2026-01-02T01:00:00Z", "what": "Waits", "reason": "WaitingForGPUs", "message": "8 of 8 in use"},
            {"at": "2026-01-02T02:00:00Z", "what": "Admitted", "message": "workers on n1 (2): H100"},
            {"at": "2026-01-02T03:00:00Z", "what": "Failed", "reason": "Failed"},
        ],
        tail=["Traceback", "boom"],
        exitCode=1,
        exitReason="Error",
        exitRank=1,
    )
    assert list(history.sentences(failed)) == [
        "red/train Failed in queue q: 2 × 0.4 H100",
        "rank 1 failed",
        "Ran 2h13m in 2 attempts (1 failed), held 1.78 GPU-hours.",
        "Made 12 of 400 steps.",
        "  loss: 0.5",
        "2026-01-02 01:00  Waits (WaitingForGPUs): 8 of 8 in use",
        "2026-01-02 02:00  Admitted: workers on n1 (2): H100",
        "2026-01-02 03:00  Failed",
        "The last lines of rank 1, which ended with 1 (Error):",
        "  Traceback",
        "  boom",
    ]


def test_one_run_is_asked_by_its_name_and_given_as_it_is_on_wish(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.answers["/namespaces/blue/runs/train"] = run()
    for words in (["history", "blue/train"], ["eff", "blue/train"]):
        assert main.main([*words, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == run()
    assert main.main(["history", "nobody"]) == 3


# -- eff ---------------------------------------------------------------------------------------------------------------

USE = {
    "samples": 532, "busyPercent": 38, "idlePercent": 12, "memoryPeakMiB": 9_318, "memoryHeldMiB": 32_768,
    "memoryPercent": 28, "shared": False,
}  # fmt: skip


def test_what_a_run_used_is_beside_what_it_held_with_advice() -> None:
    advised = run(use=USE, advice=["ask for less"], memoryPeakMiB=8_192, restarts=2, failures=1)
    assert list(eff.sentences(advised)) == [
        "red/train Succeeded after 2h13m: 2 × 0.4 H100",
        "Held         1.78 GPU-hours",
        "GPU compute  38 % of the time a kernel ran, 12 % of the samples nothing did (532 samples)",
        "GPU memory   28 %: at most 9.1 GiB of 32.0 GiB on one GPU",
        "             8.0 GiB at most of one rank, as its framework counts",
        "Restarts     2, 1 by its own fault",
        "- ask for less",
    ]


@pytest.mark.parametrize(("samples", "last"), [(7, "That is too few"), (8, "It used what it asked for")])
def test_nothing_is_concluded_from_few_samples(samples: int, last: str) -> None:
    assert list(eff.sentences(run(use=USE | {"samples": samples})))[-1].startswith(last)


def test_a_run_that_used_what_it_held_and_one_that_nobody_saw_are_told_apart() -> None:
    assert list(eff.sentences(run(use=USE | {"shared": True})))[-1] == "It used what it asked for: nothing to change."
    assert "beside other jobs" in list(eff.sentences(run(use=USE | {"shared": True})))[2]
    assert list(eff.sentences(run()))[-1].startswith("Its use of them is unknown")


def test_use_of_simulated_gpus_is_not_judged() -> None:
    found = run(use={"samples": 532, "simulated": True}, advice=["It declares no `expectedRuntime`"])
    assert list(eff.sentences(found))[2:] == [
        "Its GPUs were simulated: nothing computes on them, so there is no use to judge.",
        "- It declares no `expectedRuntime`",
    ]


# -- cost --------------------------------------------------------------------------------------------------------------


RUNS = [
    run("a", gpuSeconds=7_200),
    run("b", gpuSeconds=3_600, outcome="Failed", user="bob"),
    run("a", gpuSeconds=1_800, gpuClass="A100", outcome="Deleted"),
]


@pytest.fixture
def costly(cluster: PlayedCluster) -> PlayedCluster:
    cluster.answers["/namespaces/red/runs"] = {"items": RUNS}
    return cluster


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            [],
            [
                "JOB     RUNS   GPU-HOURS   UNSUCCESSFUL",
                "red/a   2      2.50        0.50",
                "red/b   1      1.00        1.00",
                "all     3      3.50        1.50",
            ],
        ),
        (
            ["--by", "class", "--price", "H100=2.50", "--price", "*=0.333"],
            [
                "CLASS   RUNS   GPU-HOURS   UNSUCCESSFUL   PRICE",
                "H100    2      3.00        1.00           7.50",
                "A100    1      0.50        0.50           0.16",
                "all     3      3.50        1.50           7.66",
            ],
        ),
        (
            ["--by", "user", "--price", "H100=2"],
            [
                "USER   RUNS   GPU-HOURS   UNSUCCESSFUL   PRICE",
                "ann    2      2.50        0.50           ?",
                "bob    1      1.00        1.00           2.00",
                "all    3      3.50        1.50           ?",
            ],
        ),
    ],
    ids=["each job", "priced by class", "a class without a price"],
)
def test_gpu_hours_are_added_up_and_priced(
    costly: PlayedCluster, capsys: pytest.CaptureFixture[str], words: list[str], lines: list[str]
) -> None:
    assert main.main(["cost", "--since", "9999w", *words]) == 0
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (None, []),
        (
            {"left": "63", "burnDown": "37 % spent, 52 % of the month over", "periodEnd": "2027-01-01T00:00:00Z"},
            ["", "Queue vision has 63 GPU-hours left until 2027-01-01 (37 % spent, 52 % of the month over)."],
        ),
        (
            {
                "left": "5.25",
                "moneyLeft": "80 EUR",
                "burnDown": "91 % spent, 9 % of the week over",
                "periodEnd": "2027-01-01T00:00:00Z",
                "projectedEnd": "2026-12-28T09:00:00Z",
            },
            [
                "",
                "Queue vision has 5.25 GPU-hours and 80 EUR left until 2027-01-01 (91 % spent, 9 % of the week over); "
                "at what runs now it ends on 2026-12-28.",
            ],
        ),
    ],
    ids=["without a budget", "of time", "of time and money, which ends"],
)
def test_what_is_left_of_the_queues_budget_stands_below(
    costly: PlayedCluster, capsys: pytest.CaptureFixture[str], budget: object, said: list[str]
) -> None:
    queue = {"metadata": {"name": "vision", "namespace": "red"}, "status": {"budget": budget} if budget else {}}
    costly.kube.put(LOCAL_QUEUES, queue)
    assert main.main(["cost", "--since", "9999w"]) == 0
    assert capsys.readouterr().out.splitlines()[4:] == said


def test_a_run_of_a_second_does_not_read_as_free(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers["/namespaces/red/runs/a"] = run("a", gpuSeconds=1)
    assert main.main(["cost", "a", "--price", "*=2.50"]) == 0
    assert capsys.readouterr().out.split()[-1] == "0.00069"
    assert main.main(["cost", "a", "--price", "*=2.50", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"][0]["price"] == "0.000694"


def test_runs_that_ended_before_are_not_counted(costly: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["cost", "--since", "1h"]) == 0
    assert capsys.readouterr().out == "No run ended in this time.\n"


def test_one_job_is_asked_by_name_whenever_it_ended(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers["/namespaces/red/runs/a"] = RUNS[0]
    assert main.main(["cost", "a", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == [
        {"name": "red/a", "runs": 1, "gpuSeconds": 7_200, "gpuSecondsNotFinished": 0}
    ]


@pytest.mark.parametrize("words", [["--price", "H100"], ["--price", "=2"], ["--price", "a=NaN"]])
def test_words_that_cannot_be_read_are_refused_before_anybody_is_asked(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main.main(["cost", *words]) == 2
    assert "give " in capsys.readouterr().err
    assert cluster.asked == []
