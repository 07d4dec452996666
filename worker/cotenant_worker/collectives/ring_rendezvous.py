"""The rendezvous of a ring: rank 0 listens, every rank brings a port, every rank gets all ports.

A connection without the job's secret is closed, and no message for one ring opens another (`hmac_handshake`). Every
wait has a deadline and its error names the ranks that did not come.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

from cotenant_worker.collectives.duplex_socket import TIMEOUT_S, DuplexSocket, receive_exactly
from cotenant_worker.collectives.ring import Ring
from cotenant_worker.host.addresses import at, family_of, host_and_port
from cotenant_worker.messaging.hmac_handshake import (
    authenticate_client,
    authenticate_to_server,
    new_nonce,
    one_time_token,
    verify_one_time_token,
)

_LENGTH = struct.Struct("<Q")
_JOIN_TIMEOUT_S = TIMEOUT_S
"""Some ranks may load their data for long. Absent ranks are named earlier, from the heartbeats of the others."""
_HELLO_TIMEOUT_S = 10.0
_MAX_HELLO_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Listener:
    """Where one rank waits for its left-hand neighbour, and the nonce that a ticket for it is made from."""

    host: str
    port: int
    nonce: bytes

    def to_json(self) -> list[Any]:
        return [self.host, self.port, self.nonce.hex()]

    @classmethod
    def from_json(cls, raw: list[Any]) -> Listener:
        return cls(str(raw[0]), int(raw[1]), bytes.fromhex(raw[2]))


def form_ring(rank: int, size: int, address: str, secret: str) -> Ring:
    """Meet at `address`, learn everybody's port, connect to the right. TimeoutError names who did not come."""
    host, port = host_and_port(address)
    with socket.create_server(("", 0), family=family_of(host), backlog=4) as listener:
        mine = Listener(host, listener.getsockname()[1], new_nonce())
        doors = (
            _rendezvous_as_root(size, host, port, mine, secret)
            if rank == 0
            else _join_rendezvous(rank, host, port, mine, secret)
        )
        neighbour = doors[(rank + 1) % size]
        right = socket.create_connection((neighbour.host, neighbour.port), timeout=_JOIN_TIMEOUT_S)
        right.sendall(one_time_token(secret, neighbour.nonce, rank))
        listener.settimeout(_JOIN_TIMEOUT_S)
        left = _accept_from(listener, (rank - 1) % size, secret, mine.nonce)
    return Ring(DuplexSocket(rank, size, right, left))


def _accept_from(listener: socket.socket, expected: int, secret: str, nonce: bytes) -> socket.socket:
    """The neighbour's connection; one that is silent or has no token of the neighbour's is closed."""
    while True:
        connection, _ = listener.accept()
        try:
            if verify_one_time_token(connection, secret, nonce, expected):
                return connection
        except OSError:
            pass
        connection.close()


def _rendezvous_as_root(size: int, host: str, port: int, mine: Listener, secret: str) -> list[Listener]:
    doors: dict[int, Listener] = {0: mine}
    waiting: list[socket.socket] = []
    deadline = time.monotonic() + _JOIN_TIMEOUT_S
    with socket.create_server((host, port), family=family_of(host), backlog=size) as door:
        while len(doors) < size:
            door.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                connection, peer = door.accept()
            except TimeoutError:
                missing = sorted(set(range(size)) - set(doors))
                raise TimeoutError(f"all_reduce: ranks {missing} did not come within {_JOIN_TIMEOUT_S:.0f} s") from None
            hello = _read_hello(connection, secret)
            if hello is None:
                connection.close()
                continue
            doors[hello["rank"]] = Listener(peer[0], hello["port"], bytes.fromhex(hello["nonce"]))
            waiting.append(connection)
        answer = json.dumps([doors[rank].to_json() for rank in range(size)]).encode()
        for connection in waiting:
            connection.sendall(_LENGTH.pack(len(answer)) + answer)
            connection.close()
    return [doors[rank] for rank in range(size)]


def _read_hello(connection: socket.socket, secret: str) -> dict[str, Any] | None:
    """Rank, port and nonce of a connection; None when it is not a rank of this job."""
    try:
        connection.settimeout(_HELLO_TIMEOUT_S)
        authenticate_client(connection, secret)
        (length,) = _LENGTH.unpack(receive_exactly(connection, _LENGTH.size))
        if length > _MAX_HELLO_BYTES:
            return None
        hello: dict[str, Any] = json.loads(receive_exactly(connection, length))
    except (OSError, ValueError):
        return None
    return hello


def _join_rendezvous(rank: int, host: str, port: int, mine: Listener, secret: str) -> list[Listener]:
    deadline = time.monotonic() + _JOIN_TIMEOUT_S
    hello = json.dumps({"rank": rank, "port": mine.port, "nonce": mine.nonce.hex()}).encode()
    while True:
        try:
            with socket.create_connection((host, port), timeout=5) as door:
                door.settimeout(_JOIN_TIMEOUT_S)
                authenticate_to_server(door, secret)
                door.sendall(_LENGTH.pack(len(hello)) + hello)
                raw = receive_exactly(door, _LENGTH.unpack(receive_exactly(door, _LENGTH.size))[0])
                return [Listener.from_json(entry) for entry in json.loads(raw)]
        except OSError as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"all_reduce: rank 0 at {at(host, port)} did not answer: {error}") from error
            time.sleep(0.05)
