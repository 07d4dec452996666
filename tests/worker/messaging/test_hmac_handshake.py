"""Two ends of a socket pair: one that serves, one that comes."""

import socket
import threading

import pytest

from cotenant_worker.messaging.hmac_handshake import (
    AuthenticationError,
    authenticate_client,
    authenticate_to_server,
    secret_of,
)


def met(theirs: str, ours: str) -> None:
    left, right = socket.socketpair()
    with left, right:
        client = threading.Thread(target=authenticate_to_server, args=(right, theirs), daemon=True)
        client.start()
        try:
            authenticate_client(left, ours)
        finally:
            client.join(60)


def test_who_knows_the_secret_is_let_in() -> None:
    met("a", "a")


@pytest.mark.parametrize("theirs", ["", "b", "A"])
def test_who_does_not_is_not(theirs: str) -> None:
    with pytest.raises(AuthenticationError):
        met(theirs, "a")


def test_what_was_heard_once_is_of_no_use_later() -> None:
    answers: list[bytes] = []
    for _ in range(2):
        left, right = socket.socketpair()
        with left, right:
            left.sendall(bytes(16) if not answers else bytes(15) + b"\1")
            authenticate_to_server(right, "a")
            answers.append(left.recv(64))
    assert answers[0] != answers[1]


def test_every_attempt_has_a_secret_of_its_own_that_does_not_tell_the_token() -> None:
    secrets = {secret_of(token, uid, attempt) for token in "ab" for uid in "cd" for attempt in (1, 2)}
    assert len(secrets) == 8
    assert not any("token" in secret for secret in (secret_of("token", "uid", 1),))
