"""What an answer of the API server means."""

from __future__ import annotations

import pytest

from cotenant.controller.client.kube import Outcome, Reply
from cotenant.controller.client.replies import is_final, read_reply


@pytest.mark.parametrize(
    ("code", "raw", "reply"),
    [
        (200, b'{"kind": "Pod"}', Reply(Outcome.DONE, {"kind": "Pod"}, code=200)),
        (201, b"", Reply(Outcome.DONE, {}, code=201)),
        (299, b"{}", Reply(Outcome.DONE, {}, code=299)),
        (300, b'{"message": "moved"}', Reply(Outcome.REFUSED, message="moved", code=300)),
        (404, b'{"message": "no such pod"}', Reply(Outcome.MISSING, message="no such pod", code=404)),
        (404, b"404 page not found\n", Reply(Outcome.MISSING, message="404 page not found", code=404)),
        (409, b'{"reason": "AlreadyExists", "message": "x"}', Reply(Outcome.EXISTS, message="x", code=409)),
        (409, b'{"reason": "Conflict", "message": "x"}', Reply(Outcome.CONFLICT, message="x", code=409)),
        (422, b'{"message": "spec.x"}', Reply(Outcome.REFUSED, message="spec.x", code=422)),
        (503, b"\xff" + b"x" * 300, Reply(Outcome.REFUSED, message="\ufffd" + "x" * 199, code=503)),
    ],
    ids=lambda value: value if isinstance(value, int) else "",
)
def test_an_answer_by_its_code_and_its_body(code: int, raw: bytes, reply: Reply) -> None:
    assert read_reply(code, raw) == reply


@pytest.mark.parametrize(
    ("raw", "final"),
    [
        (b'{"message": "etcdserver: request is too large"}', True),
        (b"rpc error: trying to send message larger than max (2097153 vs. 2097152)", True),
        (b"etcdserver: request timed out", False),
        (b"", False),
    ],
)
def test_an_object_that_is_too_large_is_never_taken(raw: bytes, final: bool) -> None:
    assert is_final(raw) is final
