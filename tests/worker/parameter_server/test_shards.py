"""Parameter servers on loopback: workers are threads, servers are real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cotenant_worker.messaging.hmac_handshake import secret_of
from cotenant_worker.messaging.peer_connections import PeerGoneError
from cotenant_worker.parameter_server import shards
from cotenant_worker.parameter_server.shards import ParameterServer, ServerGenerations, Shard, serve
from cotenant_worker.ranks.environment import rank_environment, server_environment
from cotenant_worker.supervision.rank_error import blames_a_peer
from cotenant_worker.supervision.worker_group import WorkerGroup, assign_ranks
from tests.support.pod_sandbox import contract

SECRET = "of this attempt"


class Parameter:
    """The part of a tensor that a program without a framework has."""

    def __init__(self, values: list[float]) -> None:
        self.values = np.array(values, np.float32)
        self.grad: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values

    def __setitem__(self, key: slice, values: np.ndarray) -> None:
        self.values[key] = values


def started(servers: int, *, synchronous: bool) -> list[str]:
    addresses = []
    for _ in range(servers):
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=serve, args=(listener, ServerGenerations(synchronous), SECRET), daemon=True).start()
        addresses.append(f"127.0.0.1:{listener.getsockname()[1]}")
    return addresses


def worker(
    rank: int,
    addresses: list[str],
    monkeypatch: pytest.MonkeyPatch,
    start: list[float],
    *,
    workers: int = 1,
    generation: int = 0,
) -> ParameterServer:
    monkeypatch.setenv("COTENANT_PS_ADDRS", ",".join(addresses))
    monkeypatch.setenv("COTENANT_RESTART", str(generation))
    monkeypatch.setenv("WORLD_SIZE", str(workers))
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("COTENANT_SECRET", SECRET)
    return ParameterServer([Parameter(start), Parameter([9.0])], lr=0.5, momentum=0.5)


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_synchronous_steps_are_those_of_sgd_with_the_mean_gradient(
    monkeypatch: pytest.MonkeyPatch, servers: int
) -> None:
    addresses = started(servers, synchronous=True)
    # Rank 0's values win, whatever the others start with.
    both = [worker(rank, addresses, monkeypatch, [[1.0, 2.0], [7.0, 7.0]][rank], workers=2) for rank in range(2)]

    def train(rank: int) -> list[float]:
        for _ in range(2):
            for parameter in both[rank]._parameters:
                parameter.grad = np.full(parameter.shape, [1.0, 3.0][rank], np.float32)
            both[rank].step()
        return [float(value) for parameter in both[rank]._parameters for value in parameter.values]

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(train, range(2)))
    # Mean gradient 2, rate 0.5: first step −1, second step −0.5 · (0.5 · 2 + 2) = −1.5.
    assert found == [[-1.5, -0.5, 6.5]] * 2


def test_asynchronous_steps_wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = started(2, synchronous=False)
    alone = worker(0, addresses, monkeypatch, [1.0, 2.0], workers=2)
    for parameter in alone._parameters:
        parameter.grad = np.ones(parameter.shape, np.float32)
    alone.step()
    assert [float(value) for parameter in alone._parameters for value in parameter.values] == [0.5, 1.5, 8.5]


def test_a_worker_that_stays_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_WAIT_S", 0.1)
    shard = Shard(2, synchronous=True)
    shard.begin(0, np.zeros(2, np.float32))
    with pytest.raises(ConnectionError, match=r"ranks \[1\] sent no gradient"):
        shard.push(0, np.ones(2, np.float32), 0.1, 0.0)


@pytest.mark.parametrize(
    "said", [b"", b"x" * 32, b"GET / HTTP/1.1\r\n\r\n" + b" " * 14], ids=["nothing", "32 bytes", "HTTP"]
)
def test_a_stranger_is_turned_away_and_the_workers_never_notice(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    addresses = started(1, synchronous=True)
    with socket.create_connection(("127.0.0.1", int(addresses[0].rpartition(":")[2]))) as stranger:
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        alone = worker(0, addresses, monkeypatch, [1.0, 2.0])
        alone.step()
        stranger.settimeout(60)
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while part := stranger.recv(64):
                heard += part
        assert len(heard) == 16  # the nonce, and not a word more
    assert [float(value) for parameter in alone._parameters for value in parameter.values] == [1.0, 2.0, 9.0]


def test_without_the_strategy_the_program_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COTENANT_PS_ADDRS", raising=False)
    with pytest.raises(RuntimeError, match=r"set runtime\.strategy to ParameterServer"):
        ParameterServer([], lr=0.1)


class Gone:
    """A connection whose other end has died, as the kernel tells it while sending or while receiving."""

    def __init__(self, *, sending: OSError | None = None, receiving: OSError | None = None) -> None:
        self.sending, self.receiving = sending, receiving

    def sendall(self, data: bytes) -> None:
        if self.sending:
            raise self.sending

    def recv_into(self, view: memoryview) -> int:
        if self.receiving:
            raise self.receiving
        return 0


@pytest.mark.parametrize(
    "connection",
    [
        pytest.param(Gone(sending=BrokenPipeError(32, "Broken pipe")), id="before it is sent the gradient"),
        pytest.param(Gone(receiving=ConnectionResetError(104, "Connection reset by peer")), id="with it unread"),
        pytest.param(Gone(receiving=TimeoutError("timed out")), id="silently"),
        pytest.param(Gone(), id="before it answers"),
    ],
)
def test_the_error_of_a_server_that_is_gone_names_it_and_blames_a_peer(
    monkeypatch: pytest.MonkeyPatch, connection: Gone
) -> None:
    (address,) = started(1, synchronous=True)
    server = worker(0, [address], monkeypatch, [1.0])
    monkeypatch.setattr(server, "_servers", [connection])
    with pytest.raises(PeerGoneError, match=address) as error:
        server.step()
    assert blames_a_peer(f"{PeerGoneError.__qualname__}: {error.value}")


def test_a_later_start_of_the_ranks_begins_anew_with_its_own_number_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = started(2, synchronous=True)
    earlier = worker(0, addresses, monkeypatch, [1.0, 2.0], workers=2)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(earlier.step)  # for a second rank, which has gone
        again = worker(0, addresses, monkeypatch, [5.0, 6.0], workers=1, generation=1)
        with pytest.raises(ConnectionError):
            waits.result(60)
    again.step()
    assert [float(value) for parameter in again._parameters for value in parameter.values] == [5.0, 6.0, 9.0]
    with pytest.raises(ConnectionError):
        worker(1, addresses, monkeypatch, [1.0, 2.0], workers=2)  # of the earlier start, and late


def test_every_rank_knows_all_servers_by_the_names_of_their_pods() -> None:
    job = contract([1, 1], strategy="ParameterServer", servers=("train-1-s0.train", "train-1-s1.train"))
    group = WorkerGroup(0, assign_ranks(job, {0: "10.0.0.1", 1: "10.0.0.2"}), "10.0.0.1", 24000, 24001)
    for member in group.ranks:
        env = rank_environment(job, group, member)
        assert env["COTENANT_PS_ADDRS"] == "train-1-s0.train:23500,train-1-s1.train:23500"
    assert "COTENANT_PS_ADDRS" not in rank_environment(contract([1, 1]), group, group.ranks[0])


def test_a_servers_process_gets_what_it_needs_and_neither_the_token_nor_the_contract() -> None:
    job = contract([1], servers=("s",), platform={"parameterServer": {"update": "Asynchronous"}})
    inherited = {"PATH": "/bin", "RAY_AUTH_TOKEN": "secret", "COTENANT_CONTRACT": "{}"}
    env = server_environment(inherited, job)
    assert env == {
        "PATH": "/bin",
        "COTENANT_PS_UPDATE": "Asynchronous",
        "COTENANT_SECRET": secret_of("secret", job.uid, job.attempt),
    }
