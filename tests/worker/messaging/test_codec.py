"""Messages go over the wire and come back as they were; what does not fit is refused by the field's name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pytest

from cotenant_worker.messaging.codec import Codec, MessageError


@dataclass(frozen=True, slots=True)
class Place:
    ip: str
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    place: Place
    role: Literal["head", "worker"]
    ranks: tuple[int, ...] = ()
    calls: dict[int, int] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    values: dict[str, float | int | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Left:
    why: str


@dataclass(frozen=True, slots=True)
class Forwarded:
    message: Joined | Left


Message: TypeAlias = Joined | Left | Forwarded
CODEC: Codec[Message] = Codec({"joined": Joined, "left": Left, "forwarded": Forwarded})


@pytest.mark.parametrize(
    "message",
    [
        Left("its connection ended"),
        Joined(Place("10.0.0.1"), "head"),
        Joined(
            Place("10.0.0.1", 1), "worker", (0, 1), {0: 5}, {"loss": 0.5}, {"n": 1, "x": 0.5, "note": "a", "b": True}
        ),
        Forwarded(Left("an end")),
    ],
)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    line = CODEC.encode(message)
    assert line.endswith(b"}\n")
    assert CODEC.decode(line) == message


def test_an_integer_stands_for_a_float_and_stays_an_integer_where_both_fit() -> None:
    found = CODEC.decode(
        b'{"op":"joined","place":{"ip":"a"},"role":"head","metrics":{"loss":1,"done":true},"values":{"n":1}}\n'
    )
    assert isinstance(found, Joined)
    assert [type(value) for value in (*found.metrics.values(), *found.values.values())] == [float, float, int]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "not JSON"),
        (b"[]", "message: unknown op None"),
        (b'{"op":["left"]}', "message: unknown op ['left']"),
        (b'{"op":"moved"}', "message: unknown op 'moved'"),
        (b'{"op":"left"}', "left: field why is missing"),
        (b'{"op":"left","why":"","when":1}', "left: unknown field when"),
        (b'{"op":"left","why":1}', "left.why: 1 is not str"),
        (b'{"op":"joined","place":"a","role":"head"}', "joined.place: 'a' is not an object"),
        (b'{"op":"joined","place":{"ip":"a","port":true},"role":"head"}', "joined.place.port: True is not int"),
        (b'{"op":"joined","place":{"ip":"a"},"role":"king"}', "joined.role: 'king' is not one of head, worker"),
        (b'{"op":"joined","place":{"ip":"a"},"role":"head","ranks":1}', "joined.ranks: 1 is not a list"),
        (b'{"op":"joined","place":{"ip":"a"},"role":"head","ranks":[0.5]}', "joined.ranks: 0.5 is not int"),
        (b'{"op":"joined","place":{"ip":"a"},"role":"head","calls":{"a":1}}', "joined.calls: invalid literal"),
        (
            b'{"op":"joined","place":{"ip":"a"},"role":"head","metrics":{"loss":"a"}}',
            "joined.metrics: 'a' is not float",
        ),
        (b'{"op":"forwarded","message":{"op":"forwarded","message":1}}', "forwarded.message: unknown op None"),
        (
            b'{"op":"forwarded","message":{"op":"forwarded","message":{"op":"left","why":""}}}',
            "forwarded.message: op 'forwarded' does not belong here",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(line: bytes, why: str) -> None:
    with pytest.raises(MessageError) as refused:
        CODEC.decode(line)
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[" * 100_000, "not JSON: maximum recursion depth"),
        (b'{"op": "joined", "place": {"ip": "a"}, "role": "head", "metrics": {"loss": 1' + b"0" * 400 + b"}}", "bits"),
        (b'{"op": "left", "why": "", "\\ud800\\n": 1}', r"unknown field \\ud800\\n"),
    ],
    ids=["nested without end", "an integer that no float holds", "a name that no log takes"],
)
def test_a_hostile_line_is_refused_like_any_other(line: bytes, why: str) -> None:
    with pytest.raises(MessageError, match=why) as refused:
        CODEC.decode(line)
    str(refused.value).encode()
