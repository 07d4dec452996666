"""Requests of `cotenant local` to a cluster: which it carries out, which it refuses, and what the asker is told."""

import asyncio
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.controlplane import control_socket
from cotenant_local.controlplane.control_socket import ControlServer
from cotenant_local.controlplane.node_machines import NodeError
from cotenant_local.host import procfs
from cotenant_local.host.errors import LocalError


class PlayedCluster:
    """Writes down what is asked of it; there is no node but node-1."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []

    def status(self) -> dict[str, Any]:
        return {"name": "demo"}

    def stop(self) -> None:
        self.done.append(("stop",))

    def set_api_faults(self, faults: dict[str, Any] | None) -> None:
        if faults and "percent" in faults:
            raise ValueError("unknown field percent")
        self.done.append(("faults", faults))

    async def node(self, action: str, name: str) -> None:
        if name != "node-1":
            raise NodeError(f"there is no node {name}")
        self.done.append((action, name))


async def asked(path: Path, cluster: PlayedCluster, *messages: dict[str, Any]) -> list[Any]:
    """The answer to each, or the message of its refusal."""
    server = ControlServer(path, cluster)
    await server.listen()
    answers: list[Any] = []
    for message in messages:
        try:
            answers.append(await asyncio.to_thread(control_socket.request, path, 10, **message))
        except LocalError as refusal:
            answers.append(str(refusal))
    assert await asyncio.to_thread(control_socket.peer, path) == os.getpid()
    server.close()
    return answers


async def test_what_is_asked_is_done_and_answered(tmp_path: Path) -> None:
    cluster, path = PlayedCluster(), tmp_path / ("a" * 120) / "control.sock"  # longer than a socket's address may be
    path.parent.mkdir()
    answers = await asked(
        path,
        cluster,
        {"do": "status"},
        {"do": "faults", "faults": {"error_rate": 0.5}},
        {"do": "faults", "faults": None},
        {"do": "node", "action": "freeze", "name": "node-1"},
        {"do": "stop"},
    )
    assert answers == [{"name": "demo"}, {}, {}, {}, {}]
    assert cluster.done == [("faults", {"error_rate": 0.5}), ("faults", None), ("freeze", "node-1"), ("stop",)]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_what_cannot_be_done_is_refused_and_the_next_request_is_answered(tmp_path: Path) -> None:
    cluster = PlayedCluster()
    answers = await asked(
        tmp_path / "control.sock",
        cluster,
        {"do": "dance"},
        {"do": "node", "action": "burn", "name": "node-1"},
        {"do": "node", "action": "stop", "name": "node-9"},
        {"do": "faults", "faults": {"percent": 1}},
        {"do": "status"},
    )
    assert answers == [
        "unknown request 'dance'",
        "unknown request 'node'",
        "there is no node node-9",
        "unknown field percent",
        {"name": "demo"},
    ]
    assert cluster.done == []


def test_where_nothing_listens_the_asker_knows_by_the_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        control_socket.request(tmp_path / "control.sock", do="status")


@pytest.mark.parametrize(
    ("stopped", "message"),
    [
        (True, "the cluster's first process is stopped by a signal; it goes on with: kill -CONT PID"),
        (
            False,
            "the cluster's first process, PID, says nothing for 0 s: this machine is far too busy.",
        ),
    ],
)
def test_a_cluster_that_says_nothing_is_stopped_or_far_too_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: bool, message: str
) -> None:
    monkeypatch.setattr(procfs, "is_stopped", lambda _: stopped)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control.sock"))
        listener.listen()
        with pytest.raises(LocalError) as refusal:
            control_socket.request(tmp_path / "control.sock", 0.01, do="status")
    assert str(refusal.value) == message.replace("PID", str(os.getpid()))


def test_a_cluster_that_ends_meanwhile_gives_no_answer(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control.sock"))
        listener.listen()

        def hang_up() -> None:
            client, _ = listener.accept()
            client.recv(99)
            client.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(ConnectionResetError, match="closed the connection without an answer"):
            control_socket.request(tmp_path / "control.sock", 10, do="status")
        thread.join()
