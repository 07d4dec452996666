"""Lines of a watch, however the network cuts them, and what the server says when it ends."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.controller.client.kube import UnreachableError, VersionGoneError, WatchEvent
from cotenant.controller.client.watch_stream import LINE_BYTES_MAX, WatchStream


def document(version: int) -> dict[str, object]:
    return {"metadata": {"name": f"größe-{version}\n", "resourceVersion": str(version)}}


EVENTS = [
    WatchEvent(kind, document(version), version)
    for version, kind in enumerate(("ADDED", "MODIFIED", "BOOKMARK", "DELETED"), start=7)
]
TEXT = "".join(json.dumps({"type": event.kind, "object": event.document}) + "\n" for event in EVENTS).encode()


@given(st.lists(st.integers(0, len(TEXT)), max_size=8))
def test_events_are_the_same_wherever_the_network_cuts_their_lines(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(TEXT)]
    stream = WatchStream("pods")
    read = [event for first, last in itertools.pairwise(at) for event in stream.feed(TEXT[first:last])]
    assert read == EVENTS


def error(**status: object) -> bytes:
    return json.dumps({"type": "ERROR", "object": {"kind": "Status", **status}}).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "raised", "says"),
    [
        (error(code=410, message="too old"), VersionGoneError, "watch of pods ended: too old"),
        (error(code=500, message="etcd"), UnreachableError, "watch of pods ended: etcd"),
        (error(), UnreachableError, "watch of pods ended: for no reason given"),
        (b'"ADDED"\n', UnreachableError, "watch of pods: not an event: '\"ADDED\"'"),
        (b'{"type": "ADDED"}\n', UnreachableError, "watch of pods: not an event"),
        (b'{"type": "ADDED", "object": 3}\n', UnreachableError, "watch of pods: not an event"),
        (b"<html>\n", UnreachableError, "watch of pods: not an event: '<html>'"),
        (b"x" * (LINE_BYTES_MAX + 1), UnreachableError, "watch of pods: a line of more than"),
    ],
)
def test_what_ends_a_watch_is_told_apart(line: bytes, raised: type[Exception], says: str) -> None:
    with pytest.raises(raised, match=says):
        WatchStream("pods").feed(line)
