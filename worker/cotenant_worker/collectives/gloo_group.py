"""A gloo group of all ranks, for programs without a process group of torch: JAX, numpy, or torch before its own.

The ranks meet in a TCPStore of rank 0. torch's default process group stays free for the program. Every rank listens on
one more port while it lives, so that the others can tell after a broken connection which rank is gone.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from cotenant_worker.host.addresses import at, family_of, host_and_port
from cotenant_worker.messaging.peer_connections import PeerGoneError

TIMEOUT_S: Final = float(os.environ.get("COTENANT_REDUCE_TIMEOUT_S", "600"))
"""Deadline for the other ranks to come, and for one collective."""
_LOOK_S: Final = 1.0
"""Time in which the kernel closes the ports of a process that has ended."""
_HEAD: Final = 128
"""Bytes that every rank sends to the others before a collective: the operation, type and shape."""
_BROKEN = re.compile(r"closed by peer|reset by peer|[Bb]roken pipe|[Cc]onnection (refused|closed)|imed out|timeout")


@dataclass(slots=True)
class GlooGroup:
    """This rank's membership of the group. All ranks call the same collectives in the same order."""

    rank: int
    backend: Any
    """torch's `ProcessGroupGloo`."""
    store: Any
    """The store in which the ranks met. Rank 0 serves it."""
    doors: list[str]
    """The addresses on which the ranks listen, in rank order."""
    own_door: socket.socket
    entered: int = 0
    """Number of collectives that this rank has entered."""

    @property
    def size(self) -> int:
        return len(self.doors)

    def all_reduce(self, tensor: Any, op: str) -> None:
        """Reduce a contiguous CPU tensor in place. `op` is a name of torch's `ReduceOp`."""
        from torch import distributed

        self.entered += 1
        options = distributed.AllreduceOptions()
        options.reduceOp = getattr(distributed.ReduceOp, op)
        self._check_agreement(f"{op} of {tensor.dtype} {list(tensor.shape)}")
        self._wait_for(self.backend.allreduce, [tensor], options)

    def _check_agreement(self, doing: str) -> None:
        """Raise ValueError if another rank reduces another type or shape: gloo would hang, or mix the bytes."""
        import torch

        head = torch.frombuffer(bytearray(doing.encode()[:_HEAD].ljust(_HEAD)), dtype=torch.uint8)
        heads = [torch.empty_like(head) for _ in self.doors]
        self._wait_for(self.backend.allgather, [heads], [head])
        told = [bytes(each.tolist()).decode().strip() for each in heads]
        other = next((rank for rank, each in enumerate(told) if each != told[self.rank]), None)
        if other is not None:
            raise ValueError(
                f"all_reduce: ranks disagree: rank {self.rank} does {told[self.rank]}, rank {other} does {told[other]}"
            )

    def _wait_for(self, collective: Callable[..., Any], *arguments: Any) -> None:
        try:
            collective(*arguments).wait()
        except RuntimeError as error:
            if not _BROKEN.search(str(error)):
                raise
            raise PeerGoneError(f"all_reduce: {self._blame()} (at rank {self.rank}: {error})") from error

    def _blame(self) -> str:
        """The ranks that are gone, found by their ports."""
        deadline = time.monotonic() + _LOOK_S
        while time.monotonic() < deadline:
            gone = [rank for rank, door in enumerate(self.doors) if rank != self.rank and not _is_open(door)]
            if gone:
                ranks = " and ".join(f"rank {rank}" for rank in gone)
                return f"{ranks} went away"
            time.sleep(_LOOK_S / 20)
        return f"another rank broke the connection, or did not answer for {TIMEOUT_S:.0f} s"

    def close(self) -> None:
        self.own_door.close()
        self.backend = self.store = None


def form_group(rank: int, size: int, address: str) -> GlooGroup:
    """Meet the other ranks at `address`, where rank 0 listens. TimeoutError names the ranks that did not come."""
    from torch import distributed

    host, port = host_and_port(address)
    timeout = timedelta(seconds=TIMEOUT_S)
    mine = _own_address(host, port)
    door = socket.create_server((mine, 0), family=family_of(mine), backlog=size)
    try:
        store = distributed.TCPStore(
            host, port, world_size=size, is_master=rank == 0, timeout=timeout, wait_for_workers=False
        )
    except RuntimeError as error:
        door.close()
        raise TimeoutError(f"all_reduce: rank 0 at {address} did not answer within {TIMEOUT_S:.0f} s") from error
    store.set(f"door-{rank}", at(mine, door.getsockname()[1]))
    doors = _doors(store, size)
    options = distributed.ProcessGroupGloo._Options()
    options._devices = [distributed.ProcessGroupGloo.create_device(hostname=mine)]
    options._timeout = timeout
    backend = distributed.ProcessGroupGloo(distributed.PrefixStore("gloo", store), rank, size, options)
    return GlooGroup(rank, backend, store, doors, door)


def _doors(store: Any, size: int) -> list[str]:
    names = [f"door-{rank}" for rank in range(size)]
    try:
        return [store.get(name).decode() for name in names]
    except RuntimeError as error:
        missing = [rank for rank, name in enumerate(names) if not store.check([name])]
        raise TimeoutError(f"all_reduce: ranks {missing} did not come within {TIMEOUT_S:.0f} s") from error


def _own_address(host: str, port: int) -> str:
    """This machine's address for the others: the one from which it reaches rank 0."""
    with socket.socket(family_of(host), socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return str(probe.getsockname()[0])


def _is_open(door: str) -> bool:
    try:
        with socket.create_connection(host_and_port(door), timeout=_LOOK_S):
            return True
    except OSError:
        return False
