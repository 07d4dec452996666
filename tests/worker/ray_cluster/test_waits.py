"""Waits for Ray, by a clock that only sleeping moves."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.ray_cluster import waits
from tests.support.pod_sandbox import contract


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sleeps: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waits, "time", clock)
    job = contract([1], command=("x",), rendezvous_timeout_s=1)
    monkeypatch.setenv("COTENANT_CONTRACT", job.to_json())
    return clock


class UnknownNode:
    """Ray's function: its node is known after so many failures."""

    def __init__(self, failures: float) -> None:
        self.left = failures

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left >= 0:
            raise RuntimeError("node is not registered")
        return args, kwargs


def test_a_node_is_asked_for_again_until_it_is_known(clock: Clock) -> None:
    get_node = waits.retry_get_node(UnknownNode(3))
    assert get_node("10.0.0.1", timeout=5) == (("10.0.0.1",), {"timeout": 5})
    assert clock.sleeps == [0.1] * 3


def test_a_node_that_stays_unknown_is_rays_error_once_the_rendezvous_timeout_is_over(clock: Clock) -> None:
    with pytest.raises(RuntimeError, match="node is not registered"):
        waits.retry_get_node(UnknownNode(float("inf")))()
    assert 1.0 < clock.now - 100.0 <= 1.2


def test_a_port_that_listens_is_found_at_once(clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert waits.await_port("127.0.0.1", listener.getsockname()[1], 1.0)
    assert clock.sleeps == []


def test_a_port_where_nothing_listens_is_tried_every_20_ms_until_the_timeout(clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert not waits.await_port("127.0.0.1", port, 0.1)
    assert set(clock.sleeps) == {0.02}
    assert clock.now == pytest.approx(100.1, abs=0.021)


def head(monkeypatch: pytest.MonkeyPatch, *, listens: bool, nodes_after: float) -> list[str]:
    """A head whose raylet is known after so many questions; returns the addresses that are connected to."""
    connected: list[str] = []
    questions = [0]

    def get_all_node_info(timeout: int) -> dict[str, str]:
        questions[0] += 1
        return {"node": "raylet"} if questions[0] > nodes_after else {}

    def connect(address: str) -> Any:
        connected.append(address)
        return SimpleNamespace(get_all_node_info=get_all_node_info)

    monkeypatch.setattr(waits, "await_port", lambda host, port, timeout_s: listens and "[" not in host and port == 6379)
    monkeypatch.setattr(waits, "raylet", lambda: SimpleNamespace(GcsClient=connect))
    return connected


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "[fd00::1]:6379"])
def test_the_head_is_there_once_its_raylet_is_known(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, address: str
) -> None:
    connected = head(monkeypatch, listens=True, nodes_after=2)
    waits.await_head(address)
    assert (connected, clock.sleeps) == ([address], [0.02, 0.02])


@pytest.mark.parametrize(
    ("listens", "connected"),
    [pytest.param(False, [], id="no port"), pytest.param(True, ["10.0.0.1:6379"], id="no raylet")],
)
def test_a_head_that_does_not_come_is_named_with_the_rendezvous_timeout(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, listens: bool, connected: list[str]
) -> None:
    found = head(monkeypatch, listens=listens, nodes_after=float("inf"))
    with pytest.raises(TimeoutError) as raised:
        waits.await_head("10.0.0.1:6379")
    assert (str(raised.value), found) == ("nothing answered at 10.0.0.1:6379 within 1 s", connected)
