"""A rank's connection to its launcher: a real socket, and counters in a file."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import launcher_client
from cotenant_worker.hook.cotenant_shim.launcher_client import LauncherClient


@pytest.fixture(autouse=True)
def rank_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("COTENANT_RANK", "2")
    monkeypatch.setattr("os.getpid", lambda: 41)
    return tmp_path


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "launcher.sock"))
        listener.listen()
        listener.settimeout(5)
        yield listener


def lines_of(listener: socket.socket, count: int) -> list[dict[str, Any]]:
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as stream:
        return [json.loads(stream.readline()) for _ in range(count)]


HELLO = {"op": "hello", "role": "rank", "rank": 2}


def test_the_first_message_comes_after_a_greeting_and_each_has_its_rank(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = LauncherClient()
    monkeypatch.setenv("COTENANT_GRANT", "5")
    assert client.send({"op": "saved", "step": 7})
    assert client.warn("key", "text")
    client.report_gpus(["GPU-a"])
    assert lines_of(listener, 4) == [
        HELLO,
        {"op": "saved", "step": 7, "rank": 2},
        {"op": "warning", "key": "key", "text": "text", "rank": 2},
        {"op": "visible-gpus", "uuids": ["GPU-a"], "grant": 5, "rank": 2},
    ]


def test_a_program_that_closes_all_descriptors_keeps_the_file_that_it_opens_under_our_number(
    listener: socket.socket, tmp_path: Path
) -> None:
    client = LauncherClient()
    assert client.send({"op": "saved", "step": 7})
    assert lines_of(listener, 1) == [HELLO]
    number = client._descriptor
    with (tmp_path / "model").open("w") as model:
        os.dup2(model.fileno(), number)
        assert client.send({"op": "saved", "step": 8})
        assert lines_of(listener, 2) == [HELLO, {"op": "saved", "step": 8, "rank": 2}]
        os.write(number, b"weights")  # still open
        os.close(number)
    assert (tmp_path / "model").read_text() == "weights"


def test_a_fork_has_a_connection_of_its_own(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    client = LauncherClient()
    client.send({"op": "first"})
    parents = client._identity
    monkeypatch.setattr("os.getpid", lambda: 42)
    client.send({"op": "second"})
    assert parents != client._identity
    assert lines_of(listener, 2) == [HELLO, {"op": "first", "rank": 2}]
    assert lines_of(listener, 2) == [HELLO, {"op": "second", "rank": 2}]


def test_messages_are_dropped_without_a_launcher_and_one_that_comes_later_is_found(tmp_path: Path) -> None:
    client = LauncherClient()
    assert not client.send({"op": "dropped"})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "launcher.sock"))
        listener.listen()
        assert client.send({"op": "arrives"})
        assert lines_of(listener, 2) == [HELLO, {"op": "arrives", "rank": 2}]


def test_outside_a_job_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COTENANT_STATE_DIR")
    assert not LauncherClient().send({"op": "dropped"})


def test_counters_are_0_outside_a_rank_and_setting_one_changes_nothing() -> None:
    client = LauncherClient()
    client.set_counter("step", 5)
    assert client.get_counter("step") == 0


def test_counters_are_kept_in_the_file_of_the_rank(rank_2: Path) -> None:
    path = rank_2 / "rank-2.counters"
    path.write_bytes(bytes(launcher_client._COUNTERS_BYTES))
    client, other_process = LauncherClient(), LauncherClient()
    values = {name: value for value, name in enumerate(launcher_client._COUNTERS, start=-1)}
    for name, value in values.items():
        client.set_counter(name, value)
    assert {name: other_process.get_counter(name) for name in values} == values
    assert len(path.read_bytes()) == launcher_client._COUNTERS_BYTES


def test_a_child_that_is_forked_while_a_message_is_sent_may_send_too() -> None:
    """The thread that sent it is not in the child, and would hold the lock for ever."""
    client = LauncherClient()
    with client._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            client.send({"op": "saved"})
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
