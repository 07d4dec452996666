"""What is asked of an application in its pod, and what a server that does not answer costs: nothing."""

from __future__ import annotations

import json
import os
import threading
import urllib.error
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from cotenant_worker.sessions import observer
from cotenant_worker.sessions.activity import Activity
from cotenant_worker.sessions.application import Served
from cotenant_worker.sessions.observer import ask_of, listens, look

KERNELS = [{"execution_state": "busy", "last_activity": "2026-01-01T12:00:00Z"}]


def answers(**by_path: Any) -> Any:
    def ask(path: str) -> Any:
        found = by_path.get(path.split("?", maxsplit=1)[0].rpartition("/")[2], OSError("no answer"))
        if isinstance(found, Exception):
            raise found
        return found

    return ask


def test_an_application_that_does_not_answer_says_nothing() -> None:
    for kind in ("JupyterLab", "CodeServer", "Program"):
        assert look(kind, answers()) is None
    assert look("JupyterLab", answers(kernels=ValueError("no JSON"))) is None


def test_a_server_without_terminals_is_heard_about_its_kernels() -> None:
    missing = urllib.error.HTTPError("http://x", 404, "Not Found", Message(), None)
    found = look("JupyterLab", answers(kernels=KERNELS, terminals=missing))
    assert found is not None
    assert found.busy


def test_a_shell_is_used_when_one_of_its_terminals_is(tmp_path: Path) -> None:
    for name, at in (("0", 100), ("1", 200), ("ptmx", 900)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    assert look("Shell", answers(), tmp_path) == Activity(False, 200.0)
    assert look("Shell", answers(), tmp_path / "none") == Activity(False, None)


def test_it_asks_below_the_path_with_the_token_of_the_application() -> None:
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.handle_request, daemon=True).start()
    served = Served(port=server.server_address[1], path="/sessions/a/b/app/", token="secret")
    assert ask_of(served)("api/kernels") == []
    assert asked == [("/sessions/a/b/app/api/kernels", "token secret")]
    assert listens(served, threading.Event())
    server.server_close()


def test_the_first_report_says_that_it_listens_and_is_repeated_until_it_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended, sent, looks = threading.Event(), [], iter(range(4))

    def send(message: dict[str, Any]) -> bool:
        sent.append(message)
        return len(sent) == 2

    def nothing(*_: Any) -> None:
        if next(looks, None) is None:
            ended.set()

    monkeypatch.setattr("cotenant_worker.sessions.observer.launcher.send", send)
    monkeypatch.setattr(observer, "look", nothing)
    monkeypatch.setattr(observer, "EVERY_S", 0.0)
    observer.observe("Program", Served(port=1, path="/", token=""), ended)
    assert sent == [{"op": "activity", "busy": False, "active_at_unix_s": None}] * 2


def test_an_application_that_has_ended_is_waited_for_no_longer() -> None:
    ended = threading.Event()
    ended.set()
    assert not listens(Served(port=1, path="/", token=""), ended)


def test_no_proxy_of_the_pod_stands_between_it_and_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy reaches no 127.0.0.1 of the pod: a session in use would count as idle, and would be suspended."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(KERNELS).encode())

        def log_message(self, *_: object) -> None:
            return

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setattr("urllib.request._opener", None)  # it keeps the variables of its first use
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = look("JupyterLab", ask_of(Served(port=server.server_address[1], path="/", token="secret")))
    server.shutdown()
    server.server_close()
    assert found is not None
    assert found.busy
