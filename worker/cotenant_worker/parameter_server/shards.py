"""Strategy `ParameterServer`: servers hold the parameters; workers push gradients and pull new parameters.

`python -m cotenant_worker.parameter_server.shards FD` is one server, on a socket that already listens, in a pod of its
own (`ServerPod`). The parameters are one float32 vector cut into equal pieces, one for each server. Synchronous: a
server waits for the gradients of every worker and takes one step with their mean (the same numbers as all-reduce).
Asynchronous: it takes a step at every push, so no rank waits and gradients may be stale. If the ranks start again, with
the same number or another, each server starts from what rank 0 brings.

A program uses `ParameterServer` in place of its optimizer. Only connections that prove the attempt's secret are served
(`hmac_handshake`).
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant_worker.host import layout
from cotenant_worker.host.addresses import host_and_port
from cotenant_worker.messaging.hmac_handshake import authenticate_client, authenticate_to_server, own_secret
from cotenant_worker.messaging.peer_connections import PeerGoneError, receive_exactly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_HELLO = struct.Struct("<III")
"""Generation of the ranks, their number, the rank of this connection."""
_HEADER = struct.Struct("<BffQ")
"""Operation, learning rate, momentum, number of bytes that follow."""
_LENGTH = struct.Struct("<Q")
_INIT, _PUSH = 0, 1
_JOIN_S = 120.0
_WAIT_S = 600.0


@dataclass(slots=True)
class Shard:
    """One server's piece of the parameters, and the rule by which it changes."""

    workers: int
    synchronous: bool
    values: Vector | None = None
    _speed: Vector | None = None
    _sum: Vector | None = None
    _arrived: set[int] = field(default_factory=set)
    _round: int = 0
    _over: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def begin(self, worker: int, values: Vector) -> Vector:
        """Start with rank 0's values. The other ranks wait for them."""
        with self._changed:
            if worker == 0 and self.values is None:
                self.values = values.copy()
                self._changed.notify_all()
            if not self._changed.wait_for(lambda: self.values is not None or self._over, _JOIN_S):
                raise PeerGoneError(f"parameter server: rank 0 did not bring its parameters within {_JOIN_S:.0f} s")
            return self._now()

    def push(self, worker: int, gradient: Vector, rate: float, momentum: float) -> Vector:
        """Apply this gradient. Returns the parameters afterwards."""
        with self._changed:
            if not self.synchronous:
                self._step(gradient, rate, momentum)
                return self._now()
            self._sum = gradient.copy() if self._sum is None else self._sum + gradient
            self._arrived.add(worker)
            mine = self._round
            if len(self._arrived) == self.workers:
                self._step(self._sum / np.float32(self.workers), rate, momentum)
                self._sum, self._arrived, self._round = None, set(), self._round + 1
                self._changed.notify_all()
            elif not self._changed.wait_for(lambda: self._round > mine or self._over, _WAIT_S):
                missing = sorted(set(range(self.workers)) - self._arrived)
                raise PeerGoneError(f"parameter server: ranks {missing} sent no gradient for {_WAIT_S:.0f} s")
            return self._now()

    def close(self) -> None:
        """End all waiting: the ranks of this generation are gone."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _now(self) -> Vector:
        if self._over or self.values is None:
            raise PeerGoneError("parameter server: the ranks of this start are no more")
        return self.values.copy()

    def _step(self, gradient: Vector, rate: float, momentum: float) -> None:
        assert self.values is not None
        if momentum:
            self._speed = gradient if self._speed is None else np.float32(momentum) * self._speed + gradient
            gradient = self._speed
        self.values -= np.float32(rate) * gradient


@dataclass(slots=True)
class ServerGenerations:
    """The shard of the newest generation of the ranks. A late rank of an earlier generation must not change it."""

    synchronous: bool
    _newest: int = -1
    _shard: Shard | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def shard(self, start: int, workers: int) -> Shard:
        """The shard of generation `start`. Raises PeerGoneError for an earlier one."""
        with self._lock:
            if start > self._newest:
                if self._shard is not None:
                    self._shard.close()
                self._newest, self._shard = start, Shard(workers, self.synchronous)
            if start < self._newest or self._shard is None:
                raise PeerGoneError("parameter server: a rank of an earlier start came late")
            return self._shard


def serve(listener: socket.socket, starts: ServerGenerations, secret: str) -> None:
    """One thread for each worker, until the launcher ends the process."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection, starts, secret), daemon=True).start()


def _answer(connection: socket.socket, starts: ServerGenerations, secret: str) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        try:
            authenticate_client(connection, secret)
            start, workers, worker = _HELLO.unpack(receive_exactly(connection, _HELLO.size))
            shard = starts.shard(start, workers)
            while header := connection.recv(_HEADER.size, socket.MSG_WAITALL):
                operation, rate, momentum, size = _HEADER.unpack(header)
                data = np.frombuffer(receive_exactly(connection, size), dtype=np.float32)
                done = shard.begin(worker, data) if operation == _INIT else shard.push(worker, data, rate, momentum)
                connection.sendall(_LENGTH.pack(done.nbytes))
                connection.sendall(done.data)
        except (OSError, struct.error) as error:
            # Its peers find out by their own deadlines.
            print(f"cotenant: parameter server: {error}", file=sys.stderr, flush=True)  # noqa: T201 - the pod's log


class ParameterServer:
    """Replaces the optimizer in a worker. `step()` after `backward()` pushes gradients and pulls parameters."""

    def __init__(self, parameters: Iterable[Any], *, lr: float, momentum: float = 0.0) -> None:
        self.lr = lr
        self.momentum = momentum
        self._parameters = [parameter for parameter in parameters if getattr(parameter, "requires_grad", True)]
        self._rank = int(os.environ.get("RANK", "0"))
        addresses = [part for part in os.environ.get("COTENANT_PS_ADDRS", "").split(",") if part]
        if not addresses:
            raise RuntimeError("there are no parameter servers: set runtime.strategy to ParameterServer")
        start, workers = int(os.environ.get(layout.ENV_GENERATION, "0")), int(os.environ.get("WORLD_SIZE", "1"))
        hello = _HELLO.pack(start, workers, self._rank)
        self._addresses = addresses
        self._servers = [_connect(address, hello) for address in addresses]
        self._write(self._exchange(_INIT, self._flat([_array(parameter) for parameter in self._parameters])))

    def zero_grad(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def step(self) -> None:
        gradients = [
            np.zeros(parameter.shape, np.float32) if parameter.grad is None else _array(parameter.grad)
            for parameter in self._parameters
        ]
        self._write(self._exchange(_PUSH, self._flat(gradients)))

    def _flat(self, arrays: Sequence[NDArray[Any]]) -> Vector:
        return np.concatenate([array.reshape(-1).astype(np.float32, copy=False) for array in arrays])

    def _exchange(self, operation: int, vector: Vector) -> Vector:
        """Send every server its piece, then collect the answers, so that the servers work at the same time.

        Each rank begins with another server; otherwise all would wait for one network card after the other. Raises
        PeerGoneError with the server's address.
        """
        pieces = np.array_split(vector, len(self._servers))
        order = [(self._rank + turn) % len(self._servers) for turn in range(len(self._servers))]
        for index in order:
            piece = np.ascontiguousarray(pieces[index])
            with self._talk_to(index) as server:
                server.sendall(_HEADER.pack(operation, self.lr, self.momentum, piece.nbytes))
                server.sendall(piece.data)
        for index in order:
            with self._talk_to(index) as server:
                (size,) = _LENGTH.unpack(receive_exactly(server, _LENGTH.size))
                pieces[index] = np.frombuffer(receive_exactly(server, size), dtype=np.float32)
        return np.concatenate(pieces)

    @contextmanager
    def _talk_to(self, index: int) -> Iterator[socket.socket]:
        """Turns errors of the connection into PeerGoneError, by which the launcher knows that a peer was at fault."""
        try:
            yield self._servers[index]
        except OSError as error:
            raise PeerGoneError(f"parameter server {self._addresses[index]}: {error}") from error

    def _write(self, vector: Vector) -> None:
        at = 0
        for parameter in self._parameters:
            size = int(np.prod(parameter.shape))
            _assign(parameter, vector[at : at + size].reshape(parameter.shape))
            at += size


def _array(value: Any) -> NDArray[Any]:
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


def _assign(parameter: Any, values: Vector) -> None:
    if hasattr(parameter, "detach"):
        import torch

        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values.copy()))
    else:
        parameter[...] = values


def _connect(address: str, hello: bytes) -> socket.socket:
    host, port = host_and_port(address)
    deadline = time.monotonic() + _JOIN_S
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=5)
        except OSError as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"parameter server {address} did not answer for {_JOIN_S:.0f} s: {error}") from error
            time.sleep(0.05)
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_WAIT_S + 10)
        authenticate_to_server(connection, own_secret())
        connection.sendall(hello)
        return connection


def main() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        serve(listener, ServerGenerations(os.environ.get("COTENANT_PS_UPDATE") != "Asynchronous"), own_secret())


if __name__ == "__main__":
    main()
