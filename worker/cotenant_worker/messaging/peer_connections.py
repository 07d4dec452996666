"""Connections to other processes of the job: reads of a known length, and the error of a lost peer."""

from __future__ import annotations

import socket


class PeerGoneError(ConnectionError):
    """A rank or a server is gone, or did not answer in time."""


def receive_exactly(source: socket.socket, length: int) -> bytearray:
    """`length` bytes from a blocking socket. Raises ConnectionResetError if it ends before."""
    data = bytearray(length)
    view = memoryview(data)
    while view:
        count = source.recv_into(view)
        if count == 0:
            raise ConnectionResetError("closed by peer")
        view = view[count:]
    return data
