"""A move shows its plan, writes one wish, waits until the job is elsewhere, and takes the wish back."""

from __future__ import annotations

import argparse
import json
from typing import Any, cast

import pytest

from cotenant.cli.administrators import move
from cotenant.cli.errors import UserError
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.object_names import ObjectName

PATH = "/apis/cotenant.dev/v1beta1/namespaces/red/trainingjobs/train"
PLAN: dict[str, Any] = {
    "job": "red/train",
    "fits": True,
    "there": False,
    "from": {"n1": 2},
    "to": {"n2": 2},
    "message": "",
    "unsavedSeconds": 540,
    "unsavedGpuSeconds": "1080",
}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


class Cluster:
    """One job; `later` are its statuses as they are read one after the other, the last one for good."""

    def __init__(self, *later: dict[str, Any]) -> None:
        self.statuses = [{"attempts": 3, "phase": "Running"}, *later]
        self.written: list[Any] = []

    def read(self, path: str) -> dict[str, Any]:
        assert path == PATH
        return {"status": self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]}

    def patch(self, path: str, body: Any) -> None:
        assert path == PATH
        self.written.append(body["metadata"]["annotations"]["cotenant.dev/move"])


def moved(cluster: Cluster, timeout_s: float = 20.0) -> int:
    return move.move(cast("Connection", cluster), ObjectName("red", "train"), {"off": ["n1"]}, timeout_s)


def test_a_move_is_of_the_running_attempt_and_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    placement = {"nodes": [{"node": "n2", "ranks": [{}, {}]}]}
    cluster = Cluster(
        {"attempts": 3, "phase": "Evicting", "message": "An administrator moves it"},
        {"attempts": 3, "phase": "Pending"},
        {"attempts": 4, "phase": "Starting", "placement": placement},
    )
    assert moved(cluster) == 0
    wish, taken_back = cluster.written
    found = json.loads(wish)
    assert found.pop("until").endswith("+00:00")
    assert (found, taken_back) == ({"attempt": 3, "off": ["n1"]}, None)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "red/train: An administrator moves it",
        "red/train: it is on n2 (2)",
    ]


def test_a_job_without_a_place_stays_and_the_wish_is_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    assert (moved(cluster), cluster.written[1:]) == (1, [None])
    assert "not moved within 20 s" in capsys.readouterr().err


def test_a_job_that_ends_meanwhile_is_not_waited_for() -> None:
    assert moved(Cluster({"attempts": 3, "phase": "Succeeded"})) == 0


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            {},
            [
                "red/train would leave n1 (2) at once and go on at n2 (2), kept for it.",
                "It is asked to save. What it does not save is lost: 540 s since its newest checkpoint or its start,"
                " 0.30 GPU-hours.",
                "No running or waiting job would be affected.",
                "Jobs that wait: 1 now, 1 with it.",
            ],
        ),
        (
            {"fits": False, "there": True, "message": "it is there already"},
            ["red/train stays on n1 (2): it is there already"],
        ),
    ],
)
def test_the_plan_says_where_to_and_at_what_cost(change: dict[str, Any], lines: list[str]) -> None:
    status = {"move": PLAN | change, "waiting": {"before": 1, "after": 1}}
    assert list(move.sentences({"status": status})) == lines


def test_a_move_to_nowhere_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(UserError, match="--to NODE, --off NODE or --class CLASS"):
        move.wish_of(argparse.Namespace(to=[], off=[], gpu_class=""))
