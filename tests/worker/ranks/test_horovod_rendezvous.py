"""The store that Horovod's ranks meet at, by the requests that its client sends. A real socket, real HTTP."""

from __future__ import annotations

import asyncio
import functools
import http.client
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cotenant_worker.host.processes import ChildWatcher
from cotenant_worker.ranks.environment import base_environment, rank_environment
from cotenant_worker.ranks.horovod import HorovodRendezvous
from cotenant_worker.ranks.horovod_rendezvous import serve
from cotenant_worker.ranks.program import Program, wants_horovod
from cotenant_worker.supervision.conductor import free_ports
from cotenant_worker.supervision.worker_group import WorkerGroup, assign_ranks
from tests.support.pod_sandbox import contract

Ask = Callable[..., tuple[int, bytes]]


@pytest.fixture
def ask() -> Ask:
    """`ask(method, path, body)` → (status, body), of a store of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    threading.Thread(target=serve, args=(listener,), daemon=True).start()

    return functools.partial(asked, port)


def asked(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_a_key_is_not_there_until_somebody_brings_it_and_gone_when_its_rank_is_done(ask: Ask) -> None:
    assert ask("GET", "/global/0") == (404, b"")
    assert ask("PUT", "/global/0", b"\0address\n") == (200, b"")
    assert ask("GET", "/global/0") == (200, b"\0address\n")
    assert ask("GET", "/local_machine-0/0") == (404, b"")
    assert ask("DELETE", "/global/0") == (200, b"")
    assert ask("GET", "/global/0") == (404, b"")


def test_ranks_that_come_one_after_the_other_find_each_other(ask: Ask) -> None:
    def meet(rank: int) -> list[bytes]:
        ask("PUT", f"/global/{rank}", b"%d" % rank)
        found = []
        for peer in range(4):
            while (answer := ask("GET", f"/global/{peer}"))[0] == 404:
                pass
            found.append(answer[1])
        return found

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(meet, range(4))) == [[b"0", b"1", b"2", b"3"]] * 4


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/global", {}, 400),
        ("PUT", "/a/b/c", {}, 400),
        ("PUT", "/global/0", {"Content-Length": "many"}, 400),
        ("PUT", "/global/0", {"Content-Length": str(1 << 30)}, 413),
        ("DELETE", "/", {}, 400),
        ("POST", "/global/0", {}, 501),
    ],
)
def test_nonsense_is_refused(ask: Ask, method: str, path: str, headers: dict[str, str], status: int) -> None:
    assert ask(method, path, b"" if not headers else None, **headers)[0] == status


async def test_every_start_of_the_ranks_has_a_store_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))
    job = contract([1, 1])
    companions = HorovodRendezvous(job, ChildWatcher(), enabled=True)
    base = base_environment(os.environ, job, cpus=1)
    found = []
    for generation, port in enumerate(free_ports("127.0.0.1", 2)):
        members = assign_ranks(job, {0: "127.0.0.1", 1: "127.0.0.2"})
        companions.start(WorkerGroup(generation, members, "127.0.0.1", 24000, port), base)
        requests = [("GET", None), ("PUT", b"x"), ("GET", None)]
        found += [await asyncio.to_thread(asked, port, method, "/global/0", body) for method, body in requests]
    companions.start(WorkerGroup(2, (), "127.0.0.1", 24000, 24001), base)
    assert found == [(404, b""), (200, b""), (200, b"x")] * 2


def test_every_rank_knows_its_place_on_horovods_three_axes() -> None:
    """Simulated GPUs: two ranks on one machine, one on another. Who is second on its machine has no peer across."""
    job = contract([2, 1])
    world = WorkerGroup(0, assign_ranks(job, {0: "10.0.0.1", 1: "10.0.0.2"}), "10.0.0.1", 24000, 24001)
    axes = ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE")
    names = (*axes, "HOROVOD_HOSTNAME", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")
    found = [[rank_environment(job, world, member)[name] for name in names] for member in world.ranks]
    meet = ["10.0.0.1", "24001"]
    assert found == [
        ["0", "0", "2", "0", "2", "machine-0", *meet],
        ["1", "1", "2", "0", "1", "machine-0", *meet],
        ["2", "0", "1", "1", "2", "machine-1", *meet],
    ]


def test_a_world_of_one_has_nobody_to_meet() -> None:
    job = contract([1])
    world = WorkerGroup(0, assign_ranks(job, {0: "10.0.0.1"}), "10.0.0.1", 24000, 24001)
    assert "HOROVOD_GLOO_RENDEZVOUS_ADDR" not in rank_environment(job, world, world.ranks[0])


@pytest.mark.parametrize(
    ("source", "launcher", "framework", "want"),
    [
        ("import horovod.torch as hvd", "", "", True),
        ("import torch", "horovodrun", "", True),
        ("import torch", "", "horovod", True),
        ("import torch  # not horovod", "torchrun", "pytorch", False),
    ],
)
def test_the_store_is_there_for_who_looks_for_it(source: str, launcher: str, framework: str, want: bool) -> None:
    assert wants_horovod(Program("script", ("train.py",), launcher), source, framework) is want
