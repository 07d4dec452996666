"""Datagrams between the launcher and its fork server."""

from __future__ import annotations

import pytest

from cotenant_worker.messaging.codec import MessageError
from cotenant_worker.ranks.fork_protocol import (
    DATAGRAM_LIMIT_BYTES,
    FORK_MESSAGES,
    Forked,
    ForkMessage,
    ForkRequest,
    PreloadDone,
    PreloadNext,
)


@pytest.mark.parametrize(
    "message",
    [
        PreloadDone(9.5),
        ForkRequest({"RANK": "0", "NAME": "ü\n"}, "/workspace", "module", ("pkg.train", "--lr", "1")),
        Forked(41),
        Forked(0),
        PreloadNext(),
    ],
)
def test_a_datagram_comes_out_as_it_went_in(message: ForkMessage) -> None:
    assert FORK_MESSAGES.decode(FORK_MESSAGES.encode(message)) == message


@pytest.mark.parametrize("datagram", [b"", b"{}", b'{"op":"hello","role":"rank"}', b'{"op":"forked","pid":"1"}'])
def test_what_is_no_message_of_theirs_is_refused(datagram: bytes) -> None:
    with pytest.raises(MessageError):
        FORK_MESSAGES.decode(datagram)


def test_an_environment_as_large_as_linux_lets_one_be_fits_into_a_datagram() -> None:
    """A start with 128 KiB in one variable, Linux's limit for one string, and as much in arguments."""
    request = ForkRequest({"LARGE": "x" * (128 << 10)}, "/", "script", ("train.py", "y" * (128 << 10)))
    assert len(FORK_MESSAGES.encode(request)) < DATAGRAM_LIMIT_BYTES
