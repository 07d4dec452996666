"""Start-up phases that Ray's node process sends to the launcher of its pod."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cotenant_worker.host import layout
from cotenant_worker.ray_cluster.phases import mark_phase
from cotenant_worker.supervision.messages import MESSAGES, Hello, PhaseReached


def test_the_launcher_gets_a_greeting_and_the_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(layout.ENV_STATE, str(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as launcher:
        launcher.bind(str(layout.socket_path()))
        launcher.listen()
        mark_phase("ray imported")
        connection, _ = launcher.accept()
        with connection, connection.makefile("rb") as lines:
            assert [MESSAGES.decode(next(lines)) for _ in range(2)] == [
                Hello("rank", rank=0),
                PhaseReached("ray imported", rank=0),
            ]


@pytest.mark.parametrize(
    "rank", ["", "first"], ids=["without a launcher", "with a variable of the image that is no rank"]
)
def test_a_start_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str) -> None:
    monkeypatch.setenv(layout.ENV_STATE, str(tmp_path))
    monkeypatch.setenv("RANK", rank)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as launcher:
        if rank:
            launcher.bind(str(layout.socket_path()))
            launcher.listen()
        mark_phase("ray imported")
