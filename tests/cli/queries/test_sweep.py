"""`cotenant sweep`: sweeps as a table, and one with its trials, the best first."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from cotenant.cli import main
from cotenant.controller.client.kube import SWEEPS
from tests.cli.tenants.cluster import PlayedCluster

TRIALS = {
    "0": {"parameters": {"lr": "0.1", "width": "16"}, "phase": "Succeeded", "value": 0.5, "step": 60},
    "1": {"parameters": {"lr": "0.3", "width": "64"}, "phase": "Succeeded", "value": 0.25, "step": 60},
    "2": {
        "parameters": {"lr": "0.9", "width": "32"},
        "phase": "Stopped",
        "value": 0.75,
        "step": 12,
        "message": "stopped by the sweep at step 12: 3rd at this rung",
    },
    "3": {"parameters": {"lr": "0.00019497697578390825", "width": "32"}, "phase": "Running"},
}
STATUS: dict[str, Any] = {
    "phase": "Running",
    "message": "3 of 6 trials are over; the best is lr-1 with loss = 0.25",
    "summary": "3/6",
    "counts": {"running": 1, "succeeded": 2, "stopped": 1, "failed": 0},
    "bestValue": "0.25",
    "best": {
        "trial": 1,
        "job": "lr-1",
        "value": 0.25,
        "parameters": {"lr": "0.3", "width": "64"},
        "checkpoint": "runs/lr-1",
        "checkpointStep": 60,
    },
    "trials": TRIALS,
}
SPEC = {
    "algorithm": "TPE",
    "objective": {"metric": "loss", "goal": "Minimize"},
    "parameters": [{"name": "lr"}, {"name": "width"}],
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> PlayedCluster:
    played = PlayedCluster()

    def connect(args: argparse.Namespace) -> PlayedCluster:
        played.namespace = args.namespace or "red"
        return played

    for module in ("queries.sweep", "terminal.object_names"):
        monkeypatch.setattr(f"cotenant.cli.{module}.connect", connect)
    return played


@pytest.fixture
def sweep(cluster: PlayedCluster) -> PlayedCluster:
    cluster.kube.put(SWEEPS, {"metadata": {"name": "lr", "namespace": "red"}, "spec": SPEC, "status": STATUS})
    return cluster


def test_sweeps_are_a_table_with_their_best(sweep: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["sweep"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "NAME   PHASE     ALGORITHM   TRIALS   RUNNING   FAILED   BEST   BEST JOB",
        "lr     Running   TPE         3/6      1         0        0.25   lr-1",
    ]


@pytest.mark.parametrize("words", [["sweep", "a/b/c"], ["stop", "sw/a/b/c"], ["resume", "sw/"]])
def test_what_is_no_name_of_a_sweep_is_refused_as_that(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(words) == 2
    assert "is not the name of a sweep: give NAME, or NAMESPACE/NAME" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["lr", "red/lr", "sw/lr", "sweep.cotenant.dev/lr"])
def test_one_has_its_trials_from_the_best_on(
    sweep: PlayedCluster, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["sweep", name]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "red/lr Running: 3 of 6 trials are over; the best is lr-1 with loss = 0.25",
        "Best: lr-1 lr=0.3 width=64",
        "Its checkpoints: runs/lr-1, step 60",
        "TRIAL   PHASE       LOSS   STEP   lr            width   WHY",
        "1       Succeeded   0.25   60     0.3           64",
        "0       Succeeded   0.5    60     0.1           16",
        "2       Stopped     0.75   12     0.9           32      stopped by the sweep at step 12: 3rd at this rung",
        "3       Running                   0.000194977   32",
    ]


def test_a_namespace_without_sweeps_says_so(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["sweep", "-n", "blue"]) == 0
    assert capsys.readouterr().out == "There is no sweep here.\n"
