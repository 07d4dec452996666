"""`cotenant top` reads a cluster, and the whole of it in a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from typing import Any, cast

import pytest

from cotenant.cli.administrators.gpus import CORDONED, GPU_NODES
from cotenant.cli.administrators.top import verb as top
from cotenant.cli.administrators.top.view import Style, TopView
from cotenant.cli.errors import EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal.connection import Connection
from tests.cli.administrators.top.played_top import DATA, drawn, node


class Answering:
    """The API server and the operator, who may be away."""

    def __init__(self) -> None:
        self.away = False

    def get(self, path: str) -> dict[str, Any]:
        if self.away:
            raise UserError("its leader may be changing", EXIT_UNAVAILABLE)
        return {"items": DATA.queues if path == "/queuetrees" else DATA.jobs}

    def read(self, _: str) -> dict[str, Any]:
        return {"items": [node("n1", 90, 0, None, holders=[("train", 0, 1000)])]}


def test_an_operator_that_is_away_leaves_what_was_read_last_and_says_so() -> None:
    answering = Answering()
    feed = top.Feed(cast("Connection", answering))
    feed.refresh()
    answering.away = True
    feed.refresh()
    title = drawn(TopView(), rows=5, data=feed.data)[0]
    assert (len(feed.data.queues), title[-1]) == (3, ("   its leader may be changing", Style.BAD))


PROGRAM = """
import argparse, json, sys
from cotenant.cli.administrators.top import verb as top

class Answering:
    answers = json.loads(sys.argv[1])

    def get(self, path):
        return {"items": self.answers[path]}

    read = get

top.connect = lambda _: Answering()
sys.exit(top.run(argparse.Namespace(view="queues", once=False)))
"""


def test_in_a_terminal_it_draws_takes_keys_and_leaves() -> None:
    """A program with a terminal of its own: `3` shows who waits, `q` leaves."""
    nodes = [node("n1", 90, None, holders=[])]
    answers = {"/queuetrees": DATA.queues, "/explanations": DATA.jobs, GPU_NODES: nodes, CORDONED: []}
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(answers)],
        stdin=its, stdout=its, stderr=subprocess.PIPE, env=os.environ | {"TERM": "xterm-256color"},
    )  # fmt: skip
    seen, until = b"", time.monotonic() + 60
    while program.poll() is None and time.monotonic() < until:
        if select.select([ours], [], [], 0.1)[0]:
            seen += os.read(ours, 65_536)
        os.write(ours, b"q" if b"workers is 2" in seen else b"3" if b"team-b" in seen else b"")
    _, failed = program.communicate(timeout=5)
    assert (program.returncode, b"workers is 2" in seen) == (0, True), failed.decode()


def test_once_is_plain_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "connect", lambda _: Answering())
    assert top.run(cast("Any", type("Args", (), {"view": "waiting", "once": True})())) == 0
    assert "would start now if workers is 2" in capsys.readouterr().out
