"""State and descendants of processes, from /proc."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from cotenant_worker.host import procfs
from cotenant_worker.host.procfs import Member


def process(
    root: Path, pid: int, parent: int, *, name: str = "python", state: str = "S", session: int = 1, rank: str = ""
) -> None:
    (root / str(pid)).mkdir()
    (root / str(pid) / "stat").write_text(f"{pid} ({name}) {state} {parent} 1 {session} 0 -1 4194560 0 0")
    (root / str(pid) / "environ").write_text(f"A=1\0RANK={rank}\0")
    (root / str(pid) / "cmdline").write_text(f"{name}\0-c\0pass\0" if name else "")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(procfs, "_PROC", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("state", "stopped"), [("T", True), ("t", True), ("S", False), ("R", False), ("Z", False)])
def test_a_stopped_process_is_one_that_waits_for_sigcont_whatever_its_name(
    proc: Path, state: str, stopped: bool
) -> None:
    process(proc, 7, 1, name="a ) T (b", state=state)
    assert procfs.is_stopped(7) is stopped


def test_a_process_that_has_gone_is_not_stopped_and_has_no_stat(proc: Path) -> None:
    (proc / "8").mkdir()
    (proc / "9").mkdir()
    (proc / "9" / "stat").write_text("")
    assert [procfs.is_stopped(pid) for pid in (7, 8, 9)] == [False, False, False]
    assert procfs.read_stat(7) is None


def test_descendants_come_after_their_parents_and_others_do_not(proc: Path) -> None:
    for pid, parent in ((1, 0), (2, 1), (5, 2), (3, 5), (4, 1), (6, 3)):
        process(proc, pid, parent)
    (proc / "self").mkdir()
    (proc / "10").mkdir()
    assert procfs.descendants(2) == [5, 3, 6]
    assert procfs.descendants(6) == []


def test_the_processes_of_a_rank_are_of_its_session_or_have_its_variables(proc: Path) -> None:
    process(proc, 1, 0, rank="0")
    process(proc, 2, 1, name="", session=2)
    process(proc, 3, 1, name="daemon", rank="0")
    process(proc, 4, 1, name="of another rank", rank="1")
    process(proc, 5, 1, name="a prefix", rank="01")
    process(proc, 6, 2, name="zombie", session=2, state="Z")
    process(proc, 7, 0, name="elsewhere", session=2, rank="0")
    assert procfs.rank_pids(1, 2, ["RANK=0", "A=1"]) == [2, 3]
    assert procfs.rank_pids(1, 2, ["RANK=0", "A=2"]) == [2]  # of another start of the rank
    assert procfs.rank_pids(3, 9, ["RANK=0"]) == []
    assert [procfs.command_line(pid) for pid in (2, 3)] == ["", "daemon -c pass"]


def test_a_process_that_writes_its_title_over_its_environment_is_still_of_the_rank_that_started_it(proc: Path) -> None:
    process(proc, 2, 1)
    for pid, parent, session, environ in ((5, 2, 5, "RANK=0\0"), (4, 5, 4, ""), (3, 4, 3, ""), (6, 2, 6, "")):
        process(proc, pid, parent, session=session)
        (proc / str(pid) / "environ").write_text(environ)
    assert procfs.rank_pids(1, 5, ["RANK=0"]) == [3, 4, 5]


def test_a_program_in_go_heeds_no_signal_for_catching_all(proc: Path) -> None:
    """wandb-core's Python has no handler, and trains on without it: wandb/wandb#9963."""
    for pid, caught in ((3, "fffffffd7fc1feff"), (4, "ffffffffffc1feff"), (5, "0000000180014eff")):
        process(proc, pid, 2)
        (proc / str(pid) / "status").write_text(f"Name:\tx\nSigCgt:\t{caught}\n")
    assert [each.heeds for each in procfs.rank_members(2, 1, ["RANK=0"])] == [False, False, True]


def test_the_members_of_a_rank_are_told_by_what_they_do_with_sigterm(proc: Path) -> None:
    for pid, state in ((3, "S"), (4, "S"), (5, "S"), (6, "S"), (7, "Z"), (8, "S")):
        process(proc, pid, 2, state=state, session=9 if pid == 8 else 3)
    masks = {
        3: {"SigCgt": signal.SIGTERM},
        4: {"SigBlk": signal.SIGTERM},
        5: {"SigIgn": signal.SIGTERM},
        6: {"SigIgn": signal.SIGQUIT},
    }
    for pid, found in masks.items():
        lines = [f"{field}:\t{1 << number - 1:016x}" for field, number in found.items()]
        (proc / str(pid) / "status").write_text("\n".join(["Name:\tmain: it", *lines, "Threads:\t1"]))
        (proc / str(pid) / "exe").symlink_to("/usr/bin/bash")
    assert procfs.rank_members(2, 3, ["RANK=0"]) == [
        Member(3, 2, "main: it", "bash", heeds=True),
        Member(4, 2, "main: it", "bash", heeds=True),
        Member(5, 2, "main: it", "bash", ignores=True),
        Member(6, 2, "main: it", "bash", in_background=True),
    ]
    assert procfs.rank_members(2, 9, ["RANK=0"]) == [Member(8, 2, "")]  # it went between two looks


@pytest.mark.parametrize(
    ("command", "script"),
    [
        pytest.param("python3 -u /code/train.py --lr 1", "train.py", id="a script"),
        pytest.param("python3 -X dev -W error -m package.module --lr 1", "package.module", id="a module"),
        pytest.param("python3 -c import", "", id="typed"),
        pytest.param("python3", "", id="piped"),
        pytest.param("bash -c train.py", "", id="not Python"),
    ],
)
def test_what_a_python_runs_is_told(proc: Path, command: str, script: str) -> None:
    process(proc, 3, 2, session=3)
    (proc / "3" / "status").write_text("Name:\tit")
    (proc / "3" / "exe").symlink_to(f"/usr/bin/{command.split(maxsplit=1)[0]}")
    (proc / "3" / "cmdline").write_text(command.replace(" ", "\0"))
    assert [each.script for each in procfs.rank_members(2, 3, ["RANK=0"])] == [script]


def test_this_process_is_there() -> None:
    stat = procfs.read_stat(os.getpid())
    assert stat is not None
    assert (stat.state, stat.parent) == ("R", os.getppid())
