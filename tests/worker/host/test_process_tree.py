"""The processes of a rank, real ones: also those that it started in sessions of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_worker.host import procfs
from cotenant_worker.host.process_tree import ProcessTree
from tests.support.pod_sandbox import until

SLEEP = "import time; time.sleep(300)"
WRAPPER = f"""
import os, subprocess, sys
for variables in ({{}}, {{"COTENANT_RESTART": "0"}}):
    own = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True, env={{**os.environ, **variables}})
    print(own.pid, file=open(sys.argv[1], "a"), flush=True)
{SLEEP}
"""


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[tuple[int, int, int]]:
    """PIDs of a rank's first process, of one that it started, and of one of an earlier start of that rank."""
    env = {**os.environ, "COTENANT_RANK": "3", "COTENANT_RESTART": "1"}
    note = tmp_path / "pids"
    first = subprocess.Popen([sys.executable, "-c", WRAPPER, str(note)], env=env, start_new_session=True)
    until(lambda: len(note.read_text().split()) == 2, 60, "the processes")
    started, earlier = map(int, note.read_text().split())
    yield first.pid, started, earlier
    for pid in (started, earlier):
        os.kill(pid, 9)
    first.kill()
    first.wait()


def test_those_in_sessions_of_their_own_belong_to_the_rank_and_those_of_another_start_do_not(
    rank: tuple[int, int, int],
) -> None:
    first, started, _ = rank
    assert ProcessTree(first, 3, 1).pids() == sorted((first, started))
    assert [each.pid for each in ProcessTree(first, 3, 1).members()] == sorted((first, started))
    assert ProcessTree(first, 2, 1).pids() == [first]


SHARES = """
import os, sys, time
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(sys.argv[1], create=True, size=4096)
print("registered", flush=True)
time.sleep(300)
"""


def test_what_removes_shared_memory_outlives_the_others_and_ends_by_itself(tmp_path: Path) -> None:
    name = f"cotenant-{os.getpid()}"
    env = {**os.environ, "COTENANT_RANK": "3", "COTENANT_RESTART": "1"}
    first = subprocess.Popen(
        [sys.executable, "-c", SHARES, name], env=env, start_new_session=True, stdout=subprocess.PIPE
    )
    assert first.stdout is not None
    assert first.stdout.readline()  # it exists, and the cleaner has been told of it
    assert Path("/dev/shm", name).exists()
    tree = ProcessTree(first.pid, 3, 1)
    tree.kill_but_cleaners()
    assert first.wait(20) == -9
    until(lambda: not Path("/dev/shm", name).exists(), 60, "the removal of the shared memory")
    first.stdout.close()


def test_what_is_just_being_executed_is_spared_since_it_may_be_what_removes_shared_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = {7: "python train.py", 8: "", 9: "python -c from multiprocessing.resource_tracker import main;main(5)"}
    killed: list[int] = []
    monkeypatch.setattr(ProcessTree, "pids", lambda tree: list(lines))
    monkeypatch.setattr(ProcessTree, "signal", lambda tree, pid, number: killed.append(pid))
    monkeypatch.setattr(procfs, "command_line", lines.__getitem__)
    ProcessTree(7, 3, 1).kill_but_cleaners()
    assert killed == [7]


def test_all_of_them_are_killed(rank: tuple[int, int, int]) -> None:
    first, _, earlier = rank
    ProcessTree(first, 3, 1).kill()
    until(lambda: not ProcessTree(first, 3, 1).pids(), 60, "their end")
    os.kill(earlier, 0)
