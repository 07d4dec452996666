"""The launcher's side of the warm process: when it may take CPU time, and what a start does when it has died."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_worker.host.layout import ENV_STATE
from cotenant_worker.ranks.fork_client import has_spare_cpu

STORY = """
import asyncio, json, os
from cotenant_worker.host.processes import ChildWatcher
from cotenant_worker.ranks.fork_client import ForkClient
from cotenant_worker.ranks.fork_protocol import ForkRequest
from cotenant_worker.ranks.program import Preloads

async def story():
    children, marks = ChildWatcher(), []
    children.start()
    client = ForkClient(children, os.environ, Preloads(("colorsys",)), lambda what, _: marks.append(what), enabled=True)
    client.start()
    request = ForkRequest(dict(os.environ), os.getcwd(), "script", ("program.py",))
    output = os.open(os.devnull, os.O_WRONLY)
    found = [await client.fork(request, output)]
    server = next(iter(children._children.values()))
    server.signal(9)
    await server.exit
    found += [await client.fork(request, output), await client.fork(request, output)]
    client.kill()
    print(json.dumps([[pid is not None for pid in found], marks]))

asyncio.run(story())
"""


@pytest.mark.parametrize(
    ("cpus", "ranks", "expected"),
    [(1, 1, False), (2, 1, True), (4, 4, False), (5, 4, True)],
)
def test_the_warm_process_looks_ahead_at_once_where_a_cpu_is_left(cpus: int, ranks: int, expected: bool) -> None:
    assert has_spare_cpu(cpus, ranks) is expected


def test_a_start_does_without_a_warm_process_that_died_and_the_next_one_finds_another(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("")
    env = {**os.environ, ENV_STATE: str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", STORY], env=env, cwd=tmp_path, check=True, capture_output=True)
    assert json.loads(done.stdout) == [[True, False, True], ["imports done", "imports done"]]
