"""Two connections of a rank at once. A ring of one: what goes out to the right comes in from the left."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator

import pytest

from cotenant_worker.collectives import duplex_socket
from cotenant_worker.collectives.duplex_socket import DuplexSocket, PeerGoneError, receive_exactly


def connection() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    return ours, theirs


@pytest.fixture
def loop() -> Iterator[DuplexSocket]:
    duplex = DuplexSocket(0, 1, *connection())
    yield duplex
    duplex.close()


@pytest.mark.parametrize("size", [1, 16 << 20], ids=["a byte", "more than the buffers of a connection hold"])
def test_all_bytes_pass_in_one_thread(loop: DuplexSocket, size: int) -> None:
    data, found = bytes(range(256)) * (size // 256) or b"x", bytearray(size)
    loop.transfer(deque([memoryview(data)]), iter([memoryview(found)]))
    assert found == data


def test_buffers_are_filled_in_their_order_and_empty_ones_are_passed_over(loop: DuplexSocket) -> None:
    found = [bytearray(size) for size in (0, 3, 0, 2, 0)]
    loop.transfer(deque([memoryview(b"ab"), memoryview(b"cde")]), iter(memoryview(each) for each in found))
    assert found == [b"", b"abc", b"", b"de", b""]


def test_a_buffer_that_is_full_may_be_sent_on(loop: DuplexSocket) -> None:
    first, second = bytearray(4), bytearray(4)
    sends = deque([memoryview(b"ring")])

    def receives() -> Iterator[memoryview]:
        yield memoryview(first)
        sends.append(memoryview(bytes(reversed(first))))
        yield memoryview(second)

    loop.transfer(sends, receives())
    assert (bytes(first), bytes(second), len(sends)) == (b"ring", b"gnir", 0)


def test_a_neighbour_that_leaves_is_blamed_with_the_other_and_both_connections_close() -> None:
    (right, its_left), (left, its_right) = connection(), connection()
    duplex = DuplexSocket(2, 4, right, left)
    its_right.close()
    with pytest.raises(PeerGoneError) as raised:
        duplex.transfer(deque(), iter([memoryview(bytearray(1))]))
    assert str(raised.value) == ("all_reduce: rank 1 or rank 3 went away (PeerGoneError at rank 2: closed by peer)")
    assert (right.fileno(), left.fileno()) == (-1, -1)
    its_left.close()


def test_neighbours_that_move_nothing_are_blamed_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplex_socket, "TIMEOUT_S", 0.001)
    (right, its_left), (left, its_right) = connection(), connection()
    with pytest.raises(PeerGoneError) as raised:
        DuplexSocket(0, 4, right, left).transfer(deque(), iter([memoryview(bytearray(1))]))
    assert str(raised.value) == (
        "all_reduce: rank 3 or rank 1 did not answer for 0 s (PeerGoneError at rank 0: nothing moved for 0 s)"
    )
    its_left.close()
    its_right.close()


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
