"""A ring of ranks over TCP, without any framework: meet, connect to the right, reduce in two rounds.

Reduce-scatter, then all-gather: each rank sends 2·(n-1)/n of the data. Used by `collectives`; numpy only where arrays
travel. Every wait has a deadline, and what went wrong names the neighbours.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import NDArray

Op = Literal["sum", "mean", "max", "min", "prod"]
_LENGTH = struct.Struct("<Q")
_TIMEOUT_S = float(os.environ.get("COTENANT_REDUCE_TIMEOUT_S", "600"))
_JOIN_S = 120.0
_HELLO_S = 10.0
_HELLO_BYTES = 4096


class PeerGoneError(ConnectionError):
    """A neighbour in the ring left or did not answer in time."""


@dataclass(slots=True)
class Ring:
    """This rank's two connections: to the right, from the left."""

    rank: int
    size: int
    right: socket.socket
    left: socket.socket

    def exchange(self, outgoing: memoryview, expected: int | None = None) -> bytearray:
        """Send to the right while receiving from the left. Lengths travel first."""
        failure: list[BaseException] = []

        def push() -> None:
            try:
                self.right.sendall(_LENGTH.pack(len(outgoing)))
                self.right.sendall(outgoing)
            except OSError as error:
                failure.append(error)

        small = len(outgoing) <= 4096
        sender = None if small else threading.Thread(target=push, daemon=True)
        try:
            if sender is None:
                push()
            else:
                sender.start()
            (length,) = _LENGTH.unpack(receive(self.left, _LENGTH.size))
            data = receive(self.left, length)
            if sender is not None:
                sender.join(_TIMEOUT_S)
        except OSError as error:
            failure.append(error)
        if failure:
            raise PeerGoneError(self._blame(failure[0])) from failure[0]
        if expected is not None and len(data) != expected:
            raise ValueError(
                f"all_reduce: rank {self._left_rank} sent {len(data)} bytes where {expected} were expected"
            )
        return data

    @property
    def _left_rank(self) -> int:
        return (self.rank - 1) % self.size

    def _blame(self, error: BaseException) -> str:
        left, right = self._left_rank, (self.rank + 1) % self.size
        kind = f"did not answer for {_TIMEOUT_S:.0f} s" if isinstance(error, TimeoutError) else "went away"
        return f"all_reduce: rank {left} or rank {right} {kind} (PeerGoneError at rank {self.rank}: {error})"

    def all_gather(self, mine: bytes) -> list[bytes]:
        parts: list[bytes] = [b""] * self.size
        parts[self.rank] = mine
        travelling: bytes | bytearray = mine
        for step in range(1, self.size):
            travelling = self.exchange(memoryview(travelling))
            parts[(self.rank - step) % self.size] = bytes(travelling)
        return parts

    def all_reduce(self, array: NDArray[Any], op: Op) -> NDArray[Any]:
        import numpy as np

        combine: dict[str, Callable[..., Any]] = {
            "sum": np.add,
            "mean": np.add,
            "max": np.maximum,
            "min": np.minimum,
            "prod": np.multiply,
        }
        flat = array.reshape(-1).copy()
        shapes = self.all_gather(json.dumps([list(array.shape), array.dtype.str]).encode())
        if len(set(shapes)) != 1:
            raise ValueError(f"all_reduce: ranks disagree: {[json.loads(shape) for shape in shapes]}")
        chunks = np.array_split(flat, self.size)
        for step in range(self.size - 1):
            out = chunks[(self.rank - step) % self.size]
            into = chunks[(self.rank - step - 1) % self.size]
            data = np.frombuffer(self.exchange(_bytes(out), into.nbytes), dtype=flat.dtype)
            combine[op](into, data, out=into)
        for step in range(self.size - 1):
            out = chunks[(self.rank - step + 1) % self.size]
            into = chunks[(self.rank - step) % self.size]
            into[:] = np.frombuffer(self.exchange(_bytes(out), into.nbytes), dtype=flat.dtype)
        result: NDArray[Any] = flat.reshape(array.shape)
        return result / self.size if op == "mean" else result


def _bytes(array: NDArray[Any]) -> memoryview:
    import numpy as np

    return array.view(np.uint8).data if array.size else memoryview(b"")


def receive(source: socket.socket, length: int) -> bytearray:
    data = bytearray(length)
    view = memoryview(data)
    while view:
        count = source.recv_into(view)
        if count == 0:
            raise ConnectionResetError("closed by peer")
        view = view[count:]
    return data


def form_ring(rank: int, size: int, address: str, secret: str) -> Ring:
    """Meet at `address`, learn everybody's port, connect to the right. TimeoutError names who did not come."""
    host, _, port = address.rpartition(":")
    with socket.create_server(("", 0), backlog=4) as listener:
        mine = listener.getsockname()[1]
        table = (
            _meet_as_root(size, host, int(port), mine, secret)
            if rank == 0
            else _meet(rank, host, int(port), mine, secret)
        )
        right = socket.create_connection(table[(rank + 1) % size], timeout=_JOIN_S)
        right.sendall(_LENGTH.pack(rank) + _signature(secret, rank).encode())
        listener.settimeout(_JOIN_S)
        left = _accept_from(listener, (rank - 1) % size, secret)
    for connection in (left, right):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_TIMEOUT_S)
    return Ring(rank, size, right, left)


def _accept_from(listener: socket.socket, expected: int, secret: str) -> socket.socket:
    """The neighbour's connection; one that says nothing or cannot sign as the neighbour is closed."""
    hello = _LENGTH.pack(expected) + _signature(secret, expected).encode()
    while True:
        connection, _ = listener.accept()
        connection.settimeout(_HELLO_S)
        try:
            if hmac.compare_digest(bytes(receive(connection, len(hello))), hello):
                return connection
        except OSError:
            pass
        connection.close()


def _signature(secret: str, rank: int) -> str:
    return hmac.new(secret.encode(), str(rank).encode(), "sha256").hexdigest()


def _meet_as_root(size: int, host: str, port: int, mine: int, secret: str) -> list[tuple[str, int]]:
    table: dict[int, tuple[str, int]] = {0: (host, mine)}
    waiting: list[socket.socket] = []
    deadline = time.monotonic() + _JOIN_S
    with socket.create_server((host, port), backlog=size) as door:
        while len(table) < size:
            door.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                connection, peer = door.accept()
            except TimeoutError:
                missing = sorted(set(range(size)) - set(table))
                raise TimeoutError(f"all_reduce: ranks {missing} did not come within {_JOIN_S:.0f} s") from None
            connection.settimeout(_HELLO_S)
            hello = _hello_of(connection, secret)
            if hello is None:
                connection.close()
                continue
            table[hello["rank"]] = (peer[0], hello["port"])
            waiting.append(connection)
        answer = json.dumps([table[rank] for rank in range(size)]).encode()
        for connection in waiting:
            connection.sendall(_LENGTH.pack(len(answer)) + answer)
            connection.close()
    return [table[rank] for rank in range(size)]


def _hello_of(connection: socket.socket, secret: str) -> dict[str, Any] | None:
    """Rank and port of whoever knocked; nothing when it is not one of us."""
    try:
        (length,) = _LENGTH.unpack(receive(connection, _LENGTH.size))
        if length > _HELLO_BYTES:
            return None
        hello: dict[str, Any] = json.loads(receive(connection, length))
        known = hmac.compare_digest(str(hello["signature"]), _signature(secret, int(hello["rank"])))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return hello if known else None


def _meet(rank: int, host: str, port: int, mine: int, secret: str) -> list[tuple[str, int]]:
    deadline = time.monotonic() + _JOIN_S
    while True:
        try:
            with socket.create_connection((host, port), timeout=5) as door:
                hello = json.dumps({"rank": rank, "port": mine, "signature": _signature(secret, rank)}).encode()
                door.sendall(_LENGTH.pack(len(hello)) + hello)
                door.settimeout(_JOIN_S)
                raw = receive(door, _LENGTH.unpack(receive(door, _LENGTH.size))[0])
                return [(entry[0], entry[1]) for entry in json.loads(raw)]
        except OSError as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"all_reduce: rank 0 at {host}:{port} did not answer: {error}") from error
            time.sleep(0.05)
