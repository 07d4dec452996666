"""`all_reduce` for anything: numbers, arrays, tensors; over torch.distributed where it runs, else a ring of our own.

The ring needs no framework: ranks meet at `COTENANT_REDUCE_ADDR` (rank 0 listens there), connect to their right-hand
neighbour, and reduce in two rounds (reduce-scatter, all-gather), each rank sending 2·(n-1)/n of the data. All ranks
must call in the same order. Frameworks may be mixed: a torch rank without a process group and a JAX rank can reduce
with each other, because what travels is bytes.
"""

from __future__ import annotations

import atexit
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


class PeerGoneError(ConnectionError):
    """A neighbour in the ring left or did not answer in time."""


def all_reduce(value: Any, op: Op = "sum") -> Any:
    """The same kind of value back, reduced over all ranks; the argument is not changed."""
    if op not in ("sum", "mean", "max", "min", "prod"):
        raise ValueError(f"op must be sum, mean, max, min or prod, not {op!r}")
    if _world() == 1:
        return value.clone() if hasattr(value, "clone") else value.copy() if hasattr(value, "copy") else value
    torch = _torch_distributed()
    if torch is not None:
        return _with_torch(torch, value, op)
    return _with_ring(value, op)


def broadcast(value: Any, root: int = 0) -> Any:
    """`value` of rank `root`, on every rank; anything that JSON can carry."""
    if _world() == 1:
        return value
    mine = json.dumps(value).encode() if _rank() == root else b""
    return json.loads(_ring().all_gather(mine)[root])


def barrier() -> None:
    """Return when every rank has come here."""
    if _world() > 1:
        torch = _torch_distributed()
        if torch is not None:
            torch.distributed.barrier()
        else:
            _ring().all_gather(b"")


def _world() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


# -- over torch ----------------------------------------------------------------------------------------------------


def _torch_distributed() -> Any:
    """torch, when its default process group is up; it is never imported for this."""
    import sys

    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return torch


def _with_torch(torch: Any, value: Any, op: Op) -> Any:
    distributed = torch.distributed
    operations = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN", "prod": "PRODUCT"}
    reduce_op = getattr(distributed.ReduceOp, operations[op])
    is_tensor = isinstance(value, torch.Tensor)
    tensor = value.detach().clone() if is_tensor else torch.as_tensor(value, dtype=_dtype(torch, value)).clone()
    home = tensor.device
    if distributed.get_backend() == "nccl" and home.type == "cpu":
        tensor = tensor.cuda()
    distributed.all_reduce(tensor, op=reduce_op)
    if op == "mean":
        world = distributed.get_world_size()
        tensor = tensor / world
    tensor = tensor.to(home)
    if is_tensor:
        return tensor
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _like(value, tensor.numpy())
    return tensor.item()


def _dtype(torch: Any, value: Any) -> Any:
    if isinstance(value, bool | int):
        return torch.int64
    return torch.float64 if isinstance(value, float) else None


# -- over the ring -------------------------------------------------------------------------------------------------


def _with_ring(value: Any, op: Op) -> Any:
    if isinstance(value, bool | int | float):
        gathered = _ring().all_gather(json.dumps(value).encode())
        return _reduce_numbers([json.loads(part) for part in gathered], op)
    import numpy as np

    source = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
    reduced = _ring().all_reduce(np.ascontiguousarray(source), op)
    return _like(value, reduced)


def _reduce_numbers(values: list[Any], op: Op) -> Any:
    """In rank order on every rank, so that all get the same bits."""
    if op == "mean":
        return sum(values) / len(values)
    if op == "prod":
        product = values[0]
        for each in values[1:]:
            product *= each
        return product
    return sum(values) if op == "sum" else max(values) if op == "max" else min(values)


def _like(value: Any, array: Any) -> Any:
    """`array` as the framework of `value` has it."""
    kind = type(value).__module__.split(".")[0]
    if kind == "torch":
        import torch

        return torch.from_numpy(array).to(value.device)
    if kind in ("jax", "jaxlib"):
        import jax.numpy as jnp

        return jnp.asarray(array)
    if kind == "tensorflow":
        import tensorflow as tf

        return tf.convert_to_tensor(array)
    if kind == "cupy":
        import cupy

        return cupy.asarray(array)
    return array if hasattr(value, "shape") else array.tolist()


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


# -- forming the ring ----------------------------------------------------------------------------------------------

_rings: dict[tuple[int, str], Ring] = {}


def _ring() -> Ring:
    """This process's ring, formed at the first collective."""
    address = os.environ.get("COTENANT_REDUCE_ADDR") or _fallback_address()
    key = (os.getpid(), address)
    if key not in _rings:
        _rings[key] = form_ring(_rank(), _world(), address, os.environ.get("COTENANT_UID", ""))
        atexit.register(_rings[key].right.close)
    return _rings[key]


def _fallback_address() -> str:
    """Under another launcher: a port beside torchrun's."""
    return f"{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}"


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
        right.sendall(_LENGTH.pack(rank))
        listener.settimeout(_JOIN_S)
        left = _accept_from(listener, (rank - 1) % size)
    for connection in (left, right):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_TIMEOUT_S)
    return Ring(rank, size, right, left)


def _accept_from(listener: socket.socket, expected: int) -> socket.socket:
    while True:
        connection, _ = listener.accept()
        connection.settimeout(_JOIN_S)
        (sender,) = _LENGTH.unpack(receive(connection, _LENGTH.size))
        if sender == expected:
            return connection
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
            connection.settimeout(10)
            hello = json.loads(receive(connection, _LENGTH.unpack(receive(connection, _LENGTH.size))[0]))
            if not hmac.compare_digest(hello["signature"], _signature(secret, hello["rank"])):
                connection.close()
                continue
            table[hello["rank"]] = (peer[0], hello["port"])
            waiting.append(connection)
        answer = json.dumps([table[rank] for rank in range(size)]).encode()
        for connection in waiting:
            connection.sendall(_LENGTH.pack(len(answer)) + answer)
            connection.close()
    return [table[rank] for rank in range(size)]


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
