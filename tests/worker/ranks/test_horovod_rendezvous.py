"""The store that Horovod's ranks meet at, by the requests that its client sends. A real socket, real HTTP."""

from __future__ import annotations

import functools
import http.client
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from cotenant_worker.ranks.horovod_rendezvous import serve

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
