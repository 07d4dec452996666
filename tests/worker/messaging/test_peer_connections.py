"""Reads of a known length from a socket."""

import socket

import pytest

from cotenant_worker.messaging.peer_connections import receive_exactly


def test_exactly_so_many_bytes_are_received() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"abcdef")
        assert [bytes(receive_exactly(ours, length)) for length in (0, 4, 2)] == [b"", b"abcd", b"ef"]


def test_a_connection_that_ends_before_is_reset() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"abc")
        theirs.close()
        with pytest.raises(ConnectionResetError, match="closed by peer"):
            receive_exactly(ours, 4)
