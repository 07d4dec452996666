"""A rank's two connections in a ring, used at once: out to the right while in from the left. Stdlib, one thread.

Both sockets are non-blocking and whichever can move, moves: so no order of calls on the ranks can make all of them
wait in a send, and bytes go between the socket and the caller's buffer without another copy in between.
"""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

TIMEOUT_S = float(os.environ.get("COTENANT_REDUCE_TIMEOUT_S", "600"))


class PeerGoneError(ConnectionError):
    """A neighbour in the ring left or did not answer in time."""


@dataclass(slots=True)
class DuplexSocket:
    """This rank's connection to its right and from its left."""

    rank: int
    size: int
    right: socket.socket
    left: socket.socket

    def __post_init__(self) -> None:
        for connection in (self.left, self.right):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)

    @property
    def left_rank(self) -> int:
        return (self.rank - 1) % self.size

    def transfer(self, sends: deque[memoryview], receives: Iterator[memoryview]) -> None:
        """Send and receive until `sends` is empty and `receives` is exhausted.

        `receives` yields the buffers to fill, in order; it is resumed once a buffer is full and may then append to
        `sends`. PeerGoneError when a neighbour goes, or when nothing moves for TIMEOUT_S.
        """
        try:
            target = _next_buffer(receives)
            while sends or target is not None:
                moved = bool(sends) and self._push(sends)
                if target is not None and (count := self._pull(target)):
                    moved = True
                    target = target[count:] or _next_buffer(receives)
                if not moved:
                    self._wait(writing=bool(sends), reading=target is not None)
        except OSError as error:
            self.close()
            raise PeerGoneError(self._blame(error)) from error

    def _push(self, sends: deque[memoryview]) -> bool:
        try:
            count = self.right.send(sends[0])
        except BlockingIOError:
            return False
        if count < len(sends[0]):
            sends[0] = sends[0][count:]
        else:
            sends.popleft()
        return True

    def _pull(self, target: memoryview) -> int:
        try:
            count = self.left.recv_into(target)
        except BlockingIOError:
            return 0
        if count == 0:
            raise ConnectionResetError("closed by peer")
        return count

    def _wait(self, *, writing: bool, reading: bool) -> None:
        poll = select.poll()
        if writing:
            poll.register(self.right, select.POLLOUT)
        if reading:
            poll.register(self.left, select.POLLIN)
        if not poll.poll(TIMEOUT_S * 1000):
            raise TimeoutError(f"nothing moved for {TIMEOUT_S:.0f} s")

    def _blame(self, error: OSError) -> str:
        left, right = self.left_rank, (self.rank + 1) % self.size
        kind = f"did not answer for {TIMEOUT_S:.0f} s" if isinstance(error, TimeoutError) else "went away"
        return f"all_reduce: rank {left} or rank {right} {kind} (PeerGoneError at rank {self.rank}: {error})"

    def close(self) -> None:
        self.right.close()
        self.left.close()


def _next_buffer(receives: Iterator[memoryview]) -> memoryview | None:
    """The next buffer that is not empty."""
    return next((target for target in receives if target), None)


def receive_exactly(source: socket.socket, length: int) -> bytearray:
    """`length` bytes from a blocking socket; ConnectionResetError when it ends before."""
    data = bytearray(length)
    view = memoryview(data)
    while view:
        count = source.recv_into(view)
        if count == 0:
            raise ConnectionResetError("closed by peer")
        view = view[count:]
    return data
