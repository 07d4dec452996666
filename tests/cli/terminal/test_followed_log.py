"""`cotenant logs -f`: every line of a pod comes once, however often the stream ends before the container does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from cotenant.cli.errors import EXIT_FORBIDDEN, EXIT_NOT_FOUND, EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal import followed_log
from cotenant.cli.terminal.connection import Connection

POD = "/api/v1/namespaces/red/pods/train-1-0"
STAMPS = [
    "2026-01-01T00:00:00.100000000Z",
    "2026-01-01T00:00:00.2Z",  # the same time twice, zeros left out
    "2026-01-01T00:00:00.200000000Z",
    "2026-01-01T01:00:01.5+01:00",
    "2026-01-01T00:00:02Z",
    "2026-01-01T00:00:02.000000001Z",
]
LINES = [f"{stamp} step {number}\n".encode() for number, stamp in enumerate(STAMPS)]
SHOWN = [b"step %d\n" % number for number in range(len(LINES))]
BROKEN = UserError("the API server at x is not reached: IncompleteRead", EXIT_UNAVAILABLE)


class Server:
    """Plays the API server: each turn shows lines up to a number, cut inside the next one, then ends or breaks."""

    def __init__(self, *turns: tuple[int, UserError | None], ends_after: int) -> None:
        self.turns, self.ends_after = list(turns), ends_after
        self.asked: list[dict[str, str]] = []

    def stream(self, path: str, *, endless: bool) -> Iterator[bytes]:
        query = {key: one for key, (one,) in parse_qs(urlsplit(path).query).items()}
        self.asked.append(query)
        upto, error = self.turns.pop(0) if self.turns else (len(LINES), None)
        since = int(query["sinceTime"][17:19]) if "sinceTime" in query else 0  # all of that second come again
        for line, second in zip(LINES[:upto], (0, 0, 0, 1, 2, 2), strict=False):
            if second >= since:
                yield line
        if upto < len(LINES):
            yield LINES[upto][:33]
        if error is not None:
            raise error

    def read(self, path: str) -> dict[str, Any]:
        assert path == POD
        phase = "Running" if len(self.asked) < self.ends_after else "Succeeded"
        return {"status": {"phase": phase}}


def followed(server: Server, **query: str) -> list[bytes]:
    return list(followed_log.follow(cast("Connection", server), f"{POD}/log", query, pod=POD, pause_s=0.0))


@pytest.mark.parametrize(
    "turns",
    [
        [],
        [(3, None)],
        [(3, BROKEN)],
        [(2, BROKEN), (2, BROKEN), (5, None), (5, BROKEN)],
        [(number, BROKEN) for number in range(1, 6)],
    ],
    ids=["whole", "ends early", "breaks", "breaks again without a line", "breaks after each line"],
)
def test_every_line_is_shown_once(turns: list[tuple[int, UserError | None]]) -> None:
    assert followed(Server(*turns, ends_after=len(turns) + 1)) == SHOWN


def test_what_a_container_printed_last_is_read_after_it_has_ended() -> None:
    server = Server((4, None), ends_after=1)
    assert followed(server) == SHOWN
    assert [one["follow"] for one in server.asked] == ["true", "false"]


def test_the_tail_is_asked_for_once() -> None:
    server = Server((2, BROKEN), ends_after=2)
    followed(server, tailLines="5")
    assert ["tailLines" in one for one in server.asked] == [True, False, False]
    assert [one.get("sinceTime") for one in server.asked] == [None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z"]


@pytest.mark.parametrize(
    ("turns", "code"),
    [
        ([(0, BROKEN)], EXIT_UNAVAILABLE),
        ([(2, BROKEN)] * 20, EXIT_UNAVAILABLE),
        ([(2, UserError("no", EXIT_FORBIDDEN))], EXIT_FORBIDDEN),
    ],
    ids=["never reached", "not reached any more", "not allowed any more"],
)
def test_a_log_that_cannot_be_read_is_given_up(turns: list[tuple[int, UserError | None]], code: int) -> None:
    with pytest.raises(UserError) as refused:
        followed(Server(*turns, ends_after=99))
    assert refused.value.exit_code == code


def test_a_pod_that_is_deleted_ends_its_log() -> None:
    assert followed(Server((3, UserError("gone", EXIT_NOT_FOUND)), ends_after=99)) == SHOWN[:3]


def test_lines_of_two_outputs_that_are_out_of_order_are_all_shown() -> None:
    lines = [b"2026-01-01T00:00:02Z out", b"2026-01-01T00:00:01.9Z err", b"no time", b"2026-01-01T00:00:03Z out again"]
    position = followed_log.LogPosition()
    assert list(position.new(lines)) == [b"out", b"err", b"no time", b"out again"]
    assert list(position.new(lines[:3])) == []
