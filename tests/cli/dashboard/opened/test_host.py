"""Origins of sessions: a name for each, and what pages of other origins may ask for."""

from __future__ import annotations

import pytest

from cotenant.dashboard.opened.host import SessionsHost, comes_from_elsewhere, label_of

HOST = SessionsHost(name="sessions.example.com:8444", is_secure=True)
ORIGIN = HOST.origin("nb-1")
PAGE = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
SOCKET = {"Upgrade": "websocket"}


def test_each_session_has_an_origin_of_its_own() -> None:
    there = ("team-a", "nb", "1"), ("team-b", "nb", "1"), ("team-a", "nb", "2"), ("team-a", "nb-2", "1")
    labels = {label_of(*one) for one in there}
    assert len(labels) == 4
    assert {HOST.label_in(f"{label}.sessions.example.com:8444") for label in labels} == labels
    assert len(label_of("n" * 63, "s" * 42, "uid")) <= 63
    assert ORIGIN == "https://nb-1.sessions.example.com:8444"


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("sessions.example.com:8444", id="the host itself"),
        pytest.param("nb.sessions.example.com", id="another port"),
        pytest.param("a.nb.sessions.example.com:8444", id="a name below a session's"),
        pytest.param("nb.evil.example:8444", id="another host"),
        pytest.param("1.sessions.example.com:8444", id="no name of a session"),
        pytest.param("", id="no host"),
    ],
)
def test_other_hosts_are_no_sessions(host: str) -> None:
    assert HOST.label_in(host) == ""


@pytest.mark.parametrize(
    ("method", "headers", "refused"),
    [
        pytest.param("GET", {}, False, id="a browser that says nothing of a page"),
        pytest.param("GET", {"Sec-Fetch-Site": "same-origin"}, False, id="its own page asks"),
        pytest.param("GET", {"Sec-Fetch-Site": "none"} | PAGE, False, id="a person types the address"),
        pytest.param("GET", {"Sec-Fetch-Site": "cross-site"} | PAGE, False, id="a link on another site"),
        pytest.param("GET", {"Sec-Fetch-Site": "same-site"}, True, id="a script of another session reads"),
        pytest.param("GET", {"Sec-Fetch-Site": "cross-site"}, True, id="a picture on another site"),
        pytest.param(
            "GET", {"Sec-Fetch-Site": "same-site"} | PAGE | {"Sec-Fetch-Dest": "iframe"}, True, id="a frame elsewhere"
        ),
        pytest.param("POST", {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}, False, id="its own page writes"),
        pytest.param("POST", {"Origin": HOST.origin("nb-2")}, True, id="another session writes"),
        pytest.param("POST", {"Origin": "null"}, True, id="a sandboxed frame writes"),
        pytest.param("POST", {"Sec-Fetch-Site": "same-site"} | PAGE, True, id="a form of another session"),
        pytest.param("DELETE", {}, True, id="a write that names no origin"),
        pytest.param("GET", SOCKET | {"Origin": ORIGIN}, False, id="a WebSocket of its own page"),
        pytest.param("GET", SOCKET | {"Origin": HOST.origin("nb-2")}, True, id="a WebSocket of another session"),
        pytest.param("GET", SOCKET, True, id="a WebSocket that names no origin"),
    ],
)
def test_pages_of_other_origins_do_nothing_in_a_session(method: str, headers: dict[str, str], refused: bool) -> None:
    assert comes_from_elsewhere(method, headers, ORIGIN) is refused
