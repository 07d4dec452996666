"""The client of the API server: what it sends, what a refusal is, and that a broken connection is made anew."""

import http.client
import io
import json
import ssl
from typing import Any

import pytest

from cotenant_local.host.api_client import MERGE, Api, ApiError


class Answer(io.BytesIO):
    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(body)
        self.status, self.reason = status, "Reason"


class PlayedConnection:
    """Gives the answers one after the other; an exception instead of an answer is raised."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[Any, ...]] = []
        self.timeouts: list[float] = []
        self.closed = 0

    def open(self, timeout: float) -> "PlayedConnection":
        self.timeouts.append(timeout)
        return self

    def request(self, *what: Any) -> None:
        self.requests.append(what)

    def getresponse(self) -> Answer:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed += 1


def client(connection: PlayedConnection) -> Api:
    api = Api("127.0.0.1", 6443, ssl.create_default_context())
    opened: Any = connection.open
    api._open = opened
    return api


def test_a_document_is_sent_as_its_kind_and_answered_with_one_on_a_kept_connection() -> None:
    connection = PlayedConnection(Answer(200, b'{"a": 1}'), Answer(201, b"ok"))
    api = client(connection)
    assert api.call("GET", "/a") == {"a": 1}
    assert api.call("PATCH", "/b", {"x": 2}, kind=MERGE) == "ok"
    assert connection.requests == [
        ("GET", "/a", None, {}),
        ("PATCH", "/b", b'{"x": 2}', {"Content-Type": "application/merge-patch+json"}),
    ]
    assert connection.timeouts == [10]


def test_an_object_is_applied_under_its_name() -> None:
    connection = PlayedConnection(Answer(200, b"{}"))
    body = {"metadata": {"name": "node-1"}}
    client(connection).apply("/api/v1/nodes", body)
    path = "/api/v1/nodes/node-1?fieldManager=cotenant-local&force=true"
    kind = {"Content-Type": "application/apply-patch+yaml"}
    assert connection.requests == [("PATCH", path, json.dumps(body).encode(), kind)]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, b'{"message": "pods not found"}', "404: GET /a: pods not found"),
        (300, b"{}", "300: GET /a: None"),
        (503, b"busy \xff", "503: GET /a: busy \ufffd"),
        (500, b"[1]", "500: GET /a: [1]"),
    ],
)
def test_a_refusal_has_its_status_and_the_servers_reason(status: int, body: bytes, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        client(PlayedConnection(Answer(status, body))).call("GET", "/a")
    assert (refusal.value.status, str(refusal.value)) == (status, message)


@pytest.mark.parametrize("fault", [ConnectionResetError("gone"), http.client.BadStatusLine("x"), TimeoutError("late")])
def test_where_nothing_answers_the_connection_is_closed_and_the_error_names_the_request(fault: Exception) -> None:
    connection = PlayedConnection(fault)
    with pytest.raises(OSError, match=r"^GET /a: "):
        client(connection).call("GET", "/a")
    assert connection.closed == 1


@pytest.mark.parametrize(
    ("answer", "ready"),
    [(Answer(200, b"ok"), True), (Answer(200, b"no"), False), (Answer(500, b"ok"), False), (OSError("gone"), False)],
)
def test_a_server_is_ready_when_it_says_so(answer: Answer | Exception, ready: bool) -> None:
    connection = PlayedConnection(answer)
    assert client(connection).ready() is ready
    assert connection.requests[0][:2] == ("GET", "/readyz")


def test_a_watch_has_a_connection_of_its_own_with_its_own_deadline() -> None:
    connection = PlayedConnection(Answer(200, b"{}"), Answer(200, b"open"), Answer(410, b""))
    api = client(connection)
    api.call("GET", "/a")
    assert api.stream("/b?watch=1", 60).read() == b"open"
    assert connection.timeouts == [10, 60]
    with pytest.raises(OSError, match=r"^GET /b\?watch=1: 410 Reason$"):
        api.stream("/b?watch=1", 60)
