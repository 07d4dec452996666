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
            assert [MESSAGES.decode(line) for line in lines] == [Hello("node"), PhaseReached("ray imported")]


def test_a_start_goes_on_without_a_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(layout.ENV_STATE, str(tmp_path))
    mark_phase("ray imported")
