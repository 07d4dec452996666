"""Ranks meet for a ring, and nobody else does."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cotenant_worker.collectives import ring_rendezvous
from cotenant_worker.collectives.ring_rendezvous import form_ring
from cotenant_worker.messaging.hmac_handshake import one_time_token
from cotenant_worker.supervision.conductor import free_ports
from tests.worker.collectives.rings import on_ring


def test_nothing_that_was_said_for_one_ring_opens_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that ranks send and answer while they meet, over and over: no proof, ticket or nonce comes twice."""
    received: list[bytes] = []

    class Ear(socket.socket):
        def sendall(self, data: Any, flags: int = 0) -> None:
            received.append(bytes(data))
            super().sendall(data, flags)

    monkeypatch.setattr(socket, "socket", Ear)
    for _ in range(2):
        on_ring(3, lambda it: it.rank)
    digests = [message for message in received if len(message) in (16, 32)]
    assert len(digests) == 2 * (2 + 2 + 3)  # two come to rank 0's door, three to a neighbour's
    assert len(set(digests)) == len(digests)
    assert not any(b"secret" in message for message in received)


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(one_time_token("secret", bytes(16), 1), id="a ticket of another ring"),
        pytest.param(one_time_token("secret", b"n" * 16, 2), id="a ticket of another rank"),
        pytest.param(one_time_token("guess", b"n" * 16, 1), id="another secret"),
    ],
)
def test_a_neighbour_without_its_ticket_is_turned_away(shown: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        found = pool.submit(ring_rendezvous._accept_from, listener, 1, "secret", b"n" * 16)
        with socket.create_connection(listener.getsockname()) as stranger:
            stranger.sendall(shown)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""
        with socket.create_connection(listener.getsockname()) as neighbour:
            neighbour.sendall(one_time_token("secret", b"n" * 16, 1))
            with found.result(20) as accepted:
                assert accepted.getpeername() == neighbour.getsockname()


def test_who_does_not_know_the_secret_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_rendezvous, "_JOIN_TIMEOUT_S", 0.5)
    address = f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"
    with ThreadPoolExecutor(2) as pool:
        good = pool.submit(form_ring, 0, 2, address, "secret")
        bad = pool.submit(form_ring, 1, 2, address, "guess")
        with pytest.raises(TimeoutError, match=r"ranks \[1\] did not come"):
            good.result(20)
        assert isinstance(bad.exception(20), OSError)
    assert "COTENANT_REDUCE_ADDR" not in os.environ
