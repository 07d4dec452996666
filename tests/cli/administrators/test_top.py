"""`cotenant top`: the screen as text, what keys do to it, and the whole of it in a terminal."""

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
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from cotenant.cli.administrators import top
from cotenant.cli.administrators.gpu_shares import gpu_views
from cotenant.cli.administrators.gpus import CORDONED, GPU_NODES
from cotenant.cli.administrators.top_screen import Style, TopData, TopView, pressed, screen
from cotenant.cli.errors import EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal.connection import Connection

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SHARE = {"ppm": 0, "terms": [], "pastPpm": 0, "weight": 1}


def queue(name: str, used: str, borrowed: str, waiting: int, *, depth: int = 1) -> dict[str, Any]:
    status = {
        "depth": depth, "guaranteed": "4", "used": used, "borrowed": borrowed, "holding": 1, "waiting": waiting,
        "broken": "", "quotas": [], "share": SHARE,
    }  # fmt: skip
    return {"metadata": {"name": name}, "status": status}


def job(name: str, position: int, since: str, **status: Any) -> dict[str, Any]:
    about = {"standing": "Waiting", "queue": "red", "asks": "2 GPUs", "position": position, "submittedAt": since}
    return {"metadata": {"namespace": "red", "name": name}, "status": about | {"reason": "QueueLimit"} | status}


def node(name: str, *uses: int | None, holders: list[tuple[str, int, int]]) -> dict[str, Any]:
    gpus: list[dict[str, Any]] = [
        {"uuid": f"GPU-{name}-{number}", "index": number, "class": "H100", "memoryMiB": 81_920}
        | ({} if use is None else {"used": {"utilizationPercent": use}})
        for number, use in enumerate(uses)
    ]
    gpus[-1] |= {"healthy": False, "health": "XID79"}
    held = [
        {"namespace": "red", "job": job, "gpus": [{"uuid": f"GPU-{name}-{gpu}", "computeMilli": milli}]}
        for job, gpu, milli in holders
    ]
    return {"metadata": {"name": name}, "status": {"node": "Ready", "gpus": gpus, "holders": held}}


DATA = TopData(
    queues=[queue("lab", "7", "0", 2, depth=0), queue("team-a", "6", "2", 0), queue("team-b", "1", "0", 2)],
    gpus=list(
        gpu_views([
            node("n1", 90, 0, None, holders=[("train", 0, 1000), ("notebook", 1, 250)]),
            node("n2", 0, None, holders=[("sweep", 0, 500)]),
        ])
    ),
    jobs=[
        job("big", 2, "2026-01-01T11:00:00Z", message="Queue team-a may hold 8.", wouldStartIf="workers is 2"),
        job("next", 1, "2026-01-01T11:50:00Z", message="It is the next."),
        {"metadata": {"namespace": "red", "name": "runs"}, "status": {"standing": "Admitted"}},
    ],
)  # fmt: skip


def shown(view: TopView, rows: int = 16, columns: int = 200) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in screen(view, DATA, NOW, (rows, columns))]


def test_queues_are_a_tree_with_bars_of_what_is_their_own_and_borrowed() -> None:
    lines = shown(TopView())
    assert lines[0].endswith("5 GPUs: 1.75 held, 2 idle, 2 ill   2 jobs wait")
    assert lines[1] == "[1 Queues] 2 GPUs  3 Waiting    by tree"
    assert [line.split()[0] for line in lines[3:7]] == ["QUEUE", "lab", "team-a", "team-b"]
    assert lines[5].endswith("█" * 13 + "▒" * 7)
    assert lines[6].endswith("█" * 5 + "·" * 15)


def test_the_wall_has_a_brick_for_each_gpu_and_the_letters_their_jobs() -> None:
    assert shown(TopView(view="GPUs"))[3:10] == [
        "NODE  GPUS",
        "n1    [CCCCCCCC] [AA......] [xxxxxxxx] H100",
        "n2    [BBBB....] [xxxxxxxx] H100",
        "",
        "A  red/notebook",
        "B  red/sweep",
        "C  red/train",
    ]


def test_who_waits_has_its_reason_and_what_helps_below() -> None:
    lines = shown(TopView(view="Waiting"))
    assert [lines[4].split()[1], lines[6].split()[1]] == ["next", "big"]
    assert lines[7] == "    Queue team-a may hold 8.  would start now if workers is 2"
    assert "runs" not in "".join(lines)


@pytest.mark.parametrize(
    ("keys", "first"),
    [("3", "next"), ("3s", "big"), ("\t\t", "next"), ("3/big\n", "big"), ("3/nobody\x1b", "next")],
)
def test_keys_choose_the_view_the_order_and_what_is_searched_for(keys: str, first: str) -> None:
    view: TopView | None = TopView()
    for key in keys:
        assert view is not None
        view = pressed(view, key)
    assert view is not None
    assert shown(view)[4].split()[1] == first


def test_letters_are_of_the_search_while_it_is_typed() -> None:
    typing = TopView(typing=True)
    assert [pressed(typing, key) for key in ("q", "KEY_BACKSPACE", "KEY_DOWN")] == [
        TopView(typing=True, search="q"), typing, typing
    ]  # fmt: skip
    assert pressed(TopView(), "q") is None


def test_it_scrolls_and_stops_at_the_end() -> None:
    view = TopView(view="Waiting")
    for _ in range(9):
        view = cast("TopView", pressed(view, "KEY_DOWN"))
    assert shown(view, rows=6)[4] == "    Queue team-a may hold 8.  would start now if workers is 2"
    assert cast("TopView", pressed(view, "KEY_HOME")).first == 0


@pytest.mark.parametrize("rows", range(1, 12))
@pytest.mark.parametrize("view", ["Queues", "GPUs", "Waiting"])
def test_nothing_is_larger_than_the_terminal(rows: int, view: str) -> None:
    for columns in (1, 20, 80):
        lines = shown(TopView(view=view), rows, columns)
        assert len(lines) == rows
        assert max(len(line) for line in lines) <= columns


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
    title = screen(TopView(), feed.data, NOW, (5, 200))[0]
    assert (len(feed.data.queues), title[-1]) == (3, ("   its leader may be changing", Style.BAD))


PROGRAM = """
import argparse, json, sys
from cotenant.cli.administrators import top

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
    drawn, until = b"", time.monotonic() + 60
    while program.poll() is None and time.monotonic() < until:
        if select.select([ours], [], [], 0.1)[0]:
            drawn += os.read(ours, 65_536)
        os.write(ours, b"q" if b"workers is 2" in drawn else b"3" if b"team-b" in drawn else b"")
    _, failed = program.communicate(timeout=5)
    assert (program.returncode, b"workers is 2" in drawn) == (0, True), failed.decode()


def test_once_is_plain_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "connect", lambda _: Answering())
    assert top.run(cast("Any", type("Args", (), {"view": "waiting", "once": True})())) == 0
    assert "would start now if workers is 2" in capsys.readouterr().out
