"""No text of a tenant's reaches a terminal as control, whichever verb prints it; a new verb is held to it as well."""

from __future__ import annotations

import argparse
import io
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

import cotenant.cli
from cotenant.cli import main
from cotenant.cli.errors import UserError
from cotenant.cli.main import OF_THEIR_OWN_OUTPUT, build_parser

HOSTILE = "\x1b[35mHOSTILE\u202e\x9b2J\x07\x1b]0;owned\x1b\\\ud800"
OURS = re.compile(r"\x1b\[(?:0|1|31|32|33)m")
DRAW_THEMSELVES = {"agent", "crds", "demo", "local", "mcp", "operator", "plugin"}
"""Of this machine and of makers, or a protocol between programs: nothing of tenants is printed for a person."""
PAST_STDOUT = {
    "terminal/plain_stream.py": "bytes, where stdout is no terminal",
    "administrators/replay.py": "a packed file",
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replace stdout and stderr by this terminal."""
    shown = Terminal()
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return shown


def is_plain(text: str) -> bool:
    return re.sub(r"[\n\t]", "", OURS.sub("", text)).isprintable()


def verbs() -> Iterator[str]:
    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices


def test_verbs_that_draw_themselves_are_those_that_are_known() -> None:
    assert DRAW_THEMSELVES == OF_THEIR_OWN_OUTPUT
    assert set(verbs()) >= DRAW_THEMSELVES


@pytest.mark.parametrize("verb", sorted(set(verbs()) - DRAW_THEMSELVES))
def test_whatever_a_verb_prints_or_refuses_with_is_plain(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)

    def run(_: argparse.Namespace) -> int:
        print(HOSTILE)
        raise UserError(HOSTILE)

    class Parser:
        def parse_args(self, words: list[str]) -> argparse.Namespace:
            assert words == [verb]
            return argparse.Namespace(run=run)

    monkeypatch.setattr(main, "build_parser", lambda *_: Parser())
    assert main.main([verb]) == 1
    shown = terminal.getvalue()
    assert (shown.count("HOSTILE"), is_plain(shown)) == (2, True)


def test_nobody_writes_past_what_makes_it_plain() -> None:
    root = Path(cotenant.cli.__file__).parent
    past = re.compile(r"stdout\.buffer|stderr\.buffer|__stdout__|__stderr__|os\.write\(")
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if past.search(path.read_text())}
    assert found == set(PAST_STDOUT)


METADATA = {"name": HOSTILE, "namespace": HOSTILE}
WAITS = {
    "standing": "Waiting", "queue": HOSTILE, "asks": HOSTILE, "reason": HOSTILE, "message": HOSTILE, "position": 2,
    "submittedAt": "2026-01-01T00:00:00Z", "wouldStartIf": HOSTILE, "returnsIf": HOSTILE,
    "ahead": [{"job": HOSTILE, "asks": HOSTILE, "why": HOSTILE}], "change": {HOSTILE: HOSTILE},
}  # fmt: skip
TREE = {
    "depth": 0, "guaranteed": "1", "used": "1", "borrowed": "0", "holding": 1, "waiting": 0, "broken": HOSTILE,
    "quotas": [{"class": HOSTILE, "zone": HOSTILE, "limit": "1", "guaranteed": "1", "effective": "1", "used": "1"}],
    "share": {
        "terms": [{"class": HOSTILE, "borrowed": "1", "capacity": "1", "ppm": 1}], "pastPpm": 0, "weight": 1, "ppm": 1,
    },
}  # fmt: skip
NODE = {
    "node": HOSTILE,
    "gpus": [{"uuid": HOSTILE, "index": 0, "class": HOSTILE, "memoryMiB": 1024, "healthy": False, "health": HOSTILE}],
    "holders": [{"namespace": HOSTILE, "job": HOSTILE, "gpus": [{"uuid": HOSTILE, "computeMilli": 500}]}],
}
OFFER = {
    "classes": [
        {"class": HOSTILE, "guaranteed": 1, "borrowable": 1, "largestGang": 1, "onOneNode": 1, "largestShare": "1"}
    ]
}
ANSWERS = (
    ("/explanations", {"items": [{"metadata": METADATA, "status": WAITS}]}),
    ("/explanations/", {"metadata": METADATA, "status": WAITS}),
    ("/queuetrees", {"items": [{"metadata": METADATA, "status": TREE}]}),
    ("/offers", {"items": [{"metadata": METADATA, "status": OFFER}]}),
    ("/gpunodes", {"items": [{"metadata": METADATA, "status": NODE}]}),
)
"""End of a path, or part of it → answer; all others are refused with hostile words."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        found = (body for part, body in ANSWERS if (part in path if part.endswith("/") else path.endswith(part)))
        body = next(found, None)
        status = {"kind": "Status", "message": HOSTILE}
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(status if body is None else body).encode())

    do_POST = do_PATCH = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Nothing goes to the terminal."""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    file = tmp_path_factory.mktemp("kube") / "config"
    file.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "red"}}],
                "current-context": "c",
            }
        )
    )
    yield file
    server.shutdown()
    thread.join()
    server.server_close()


ASKED = """
ps; ps -o wide -A; ps -o json; ps -o yaml; ps -o name; why a; why a -o wide; queues; queues -o wide; offer; gpus
gpus --map; gpus -o wide; nodes; top --once --view queues; top --once --view gpus; top --once --view waiting; eff a
history; history a; cost; audit; stop a; whatif a --set workers=1; hold job a; drain n1 --dry-run
"""


@pytest.mark.parametrize("words", [one.strip() for line in ASKED.strip().splitlines() for one in line.split(";")])
def test_answers_with_control_in_every_text_are_shown_and_control_nothing(
    words: str, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = terminal_of(monkeypatch)
    main.main([*words.split(), "--kubeconfig", str(kubeconfig)])
    shown = terminal.getvalue()
    assert "HOSTILE" in shown
    assert is_plain(shown), shown
