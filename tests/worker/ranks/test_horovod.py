"""The process of Horovod's rendezvous: where it runs, and one for every start of the ranks."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.host.processes import ChildWatcher
from cotenant_worker.ranks.environment import base_environment
from cotenant_worker.ranks.horovod import HorovodRendezvous
from cotenant_worker.supervision.conductor import free_ports
from cotenant_worker.supervision.worker_group import WorkerGroup, assign_ranks
from tests.support.pod_sandbox import contract


def answer_of(port: int, method: str, body: bytes | None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, "/global/0", body)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))


async def test_every_start_of_the_ranks_has_a_store_of_its_own() -> None:
    job = contract([1, 1])
    rendezvous = HorovodRendezvous(job, ChildWatcher(), enabled=True)
    base = base_environment(os.environ, job, cpus=1)
    found = []
    for generation, port in enumerate(free_ports("127.0.0.1", 2)):
        members = assign_ranks(job, {0: "127.0.0.1", 1: "127.0.0.2"})
        rendezvous.start(WorkerGroup(generation, members, "127.0.0.1", 24000, port), base)
        requests = [("GET", None), ("PUT", b"x"), ("GET", None)]
        found += [await asyncio.to_thread(answer_of, port, method, body) for method, body in requests]
    rendezvous.start(WorkerGroup(2, (), "127.0.0.1", 24000, 24001), base)
    assert found == [(404, b""), (200, b""), (200, b"x")] * 2


class Spawned:
    """A `ChildWatcher` that starts nothing; `signals` were sent to what it would have started."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.signals: list[tuple[int, bool]] = []

    def spawn(self, name: str, *_: Any, **__: Any) -> Any:
        self.names.append(name)
        return SimpleNamespace(signal=lambda number, group: self.signals.append((number, group)))


@pytest.mark.parametrize(
    ("pods", "node_rank", "enabled", "spawned"),
    [
        pytest.param([1, 1], 0, True, ["horovod-rendezvous"], id="rank 0's pod"),
        pytest.param([1, 1], 1, True, [], id="another pod"),
        pytest.param([1, 1], 0, False, [], id="a program without Horovod"),
        pytest.param([1], 0, True, [], id="a group of one"),
    ],
)
def test_it_runs_in_rank_0s_pod_where_several_ranks_look_for_it(
    pods: list[int], node_rank: int, enabled: bool, spawned: list[str]
) -> None:
    job = contract(pods, node_rank=node_rank)
    children: Any = Spawned()
    rendezvous = HorovodRendezvous(job, children, enabled=enabled)
    members = assign_ranks(job, {pod: f"127.0.0.{pod + 1}" for pod in range(len(pods))})
    for generation, port in enumerate(free_ports("127.0.0.1", 2)):
        rendezvous.start(WorkerGroup(generation, members, "127.0.0.1", 24000, port), {})
    assert children.names == spawned * 2
    assert children.signals == [(signal.SIGKILL, True)] * len(spawned)
