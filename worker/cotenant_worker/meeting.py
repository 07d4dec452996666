"""How ranks find each other for a ring: rank 0 listens, everybody brings a port, everybody learns all ports.

Who cannot sign with the job's secret is not let in. Every wait has a deadline and names who did not come.
"""

from __future__ import annotations

import hmac
import json
import socket
import struct
import time
from typing import Any

from cotenant_worker.duplex import Duplex, receive
from cotenant_worker.ring import Ring

_LENGTH = struct.Struct("<Q")
_JOIN_S = 120.0
_HELLO_S = 10.0
_HELLO_BYTES = 4096


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
    return Ring(Duplex(rank, size, right, left))


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
