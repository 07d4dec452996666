"""Children of the launcher: their last lines, their output, their ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_worker.host import processes
from cotenant_worker.host.processes import (
    ChildProcess,
    ChildWatcher,
    forward_output,
    kill_descendants,
    refusal,
    write_log,
)


async def child() -> ChildProcess:
    return ChildProcess("rank 0", 7, asyncio.get_running_loop().create_future())


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        pytest.param([b"one", b"", b"  ", b"two"], ["one", "two"], id="empty lines are no lines"),
        pytest.param([b"10 %\r50 %\r100 %\r"], ["100 %"], id="a progress bar: what stands there in the end"),
        pytest.param([b"bad value: 'a\rb'\r"], ["bad value: 'a\\rb'"], id="a carriage return in a message"),
        pytest.param([b"\r100 %\r"], ["100 %"], id="a bar that was drawn once"),
        pytest.param([b"\xff text"], ["\N{REPLACEMENT CHARACTER} text"], id="no UTF-8"),
        pytest.param(
            [b"\x1b[1;31mValueError\x1b[0m: bad\x00 \x1b]0;x\x07batch"], ["ValueError: bad  batch"], id="colors"
        ),
        pytest.param([b"\x1b[2K10 %\r\x1b[2K50 %\r\x1b[2K100 %"], ["100 %"], id="a bar of rich's"),
        pytest.param([b"x" * 600], ["x" * 500], id="a long line"),
        pytest.param([b"%d" % n for n in range(300)], [str(n) for n in range(200, 300)], id="a flood"),
    ],
)
async def test_the_last_lines_of_a_child_are_kept(lines: list[bytes], want: list[str]) -> None:
    found = await child()
    found.record_output(lines)
    assert list(found.tail) == want


@pytest.mark.parametrize(
    ("prefix", "output", "printed", "tail"),
    [
        pytest.param("", b"one\ntwo\n", "one\ntwo\n", ["one", "two"], id="as it comes"),
        pytest.param("[rank 1] ", b"one\ntwo\n", "[rank 1] one\n[rank 1] two\n", ["one", "two"], id="with a prefix"),
        pytest.param("", b"one\nend", "one\nend\n", ["one", "end"], id="our own output begins a line"),
        pytest.param("[rank 1] ", b"end", "[rank 1] end\n", ["end"], id="with a prefix too"),
        pytest.param("", b"", "", [], id="nothing"),
    ],
)
async def test_output_is_passed_on_and_its_last_lines_are_kept(
    capfd: pytest.CaptureFixture[str], prefix: str, output: bytes, printed: str, tail: list[str]
) -> None:
    found = await child()
    read_end, write_end = os.pipe()
    os.write(write_end, output)
    os.close(write_end)
    await forward_output(read_end, found, prefix)
    assert (capfd.readouterr().out, list(found.tail)) == (printed, tail)


async def test_a_log_that_nobody_reads_holds_up_its_writer_and_nothing_else() -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 4096)
    os.set_blocking(write_end, True)
    writing = asyncio.create_task(write_log(b"late " * 2000, write_end))
    done, _ = await asyncio.wait([writing], timeout=0.05)
    assert not done
    printed = b""
    while not printed.endswith(b"late " * 2000):
        printed += await asyncio.to_thread(os.read, read_end, 1 << 16)
    await writing
    os.close(read_end)
    os.close(write_end)


def ended(monkeypatch: pytest.MonkeyPatch, *statuses: tuple[int, int]) -> None:
    """The kernel has these (pid, wait status), one after the other."""
    left: Iterator[tuple[int, int]] = iter([*statuses, (0, 0)])
    monkeypatch.setattr("os.waitpid", lambda *_: next(left))


@pytest.mark.parametrize(
    ("status", "code"), [(0, 0), (3 << 8, 3), (signal.SIGKILL, -9)], ids=["success", "a code", "a signal"]
)
async def test_the_end_of_a_child_is_its_code_or_minus_its_signal(
    monkeypatch: pytest.MonkeyPatch, status: int, code: int
) -> None:
    watcher = ChildWatcher()
    found, other = watcher.adopt("rank 0", 5), watcher.adopt("rank 1", 6)
    ended(monkeypatch, (5, status))
    watcher._reap()
    assert (found.exit.result(), found.alive, other.alive) == (code, False, True)


async def test_a_child_that_ended_before_it_was_adopted_has_ended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = ChildWatcher()
    ended(monkeypatch, (5, 3 << 8))
    watcher._reap()
    first, second = watcher.adopt("rank 0", 5), watcher.adopt("another process of that pid", 5)
    assert (first.exit.result(), second.alive) == (3, True)


async def test_ends_that_are_never_claimed_are_forgotten_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = ChildWatcher()
    ended(monkeypatch, *((pid, 0) for pid in range(1, 258)))
    watcher._reap()
    assert [watcher.adopt("orphan", pid).alive for pid in (1, 2, 257)] == [True, False, False]


async def test_without_children_nothing_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: int) -> tuple[int, int]:
        raise ChildProcessError

    monkeypatch.setattr("os.waitpid", none)
    ChildWatcher()._reap()


async def test_a_child_is_started_in_a_session_of_its_own_with_one_output(tmp_path: Path) -> None:
    script = 'echo out; echo err >&2; cat; read -r pid _ _ _ _ session _ < /proc/$$/stat; echo "$WORD $PWD $session"'
    with (tmp_path / "log").open("wb") as log:
        found = ChildWatcher().spawn(
            "rank 0", ["sh", "-c", script], {"WORD": "hello"}, cwd=str(tmp_path), output=log.fileno()
        )
    await asyncio.to_thread(os.waitpid, found.pid, 0)
    assert (tmp_path / "log").read_text().splitlines() == ["out", "err", f"hello {tmp_path} {found.pid}"]


async def test_a_signal_to_a_child_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, int, int]] = []

    def gone(pid: int, number: int) -> None:
        sent.append(("process", pid, number))
        raise ProcessLookupError

    monkeypatch.setattr("os.kill", gone)
    monkeypatch.setattr("os.killpg", lambda pid, number: sent.append(("group", pid, number)))
    found = await child()
    found.signal(signal.SIGTERM)
    found.signal(signal.SIGKILL, group=True)
    assert sent == [("process", 7, signal.SIGTERM), ("group", 7, signal.SIGKILL)]


@pytest.mark.looptime
async def test_descendants_are_killed_until_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([[8, 9], [9], []])
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(processes, "descendants", lambda _pid: next(left))
    monkeypatch.setattr("os.kill", lambda pid, number: killed.append((pid, number)))
    await kill_descendants()
    assert killed == [(8, signal.SIGKILL), (9, signal.SIGKILL), (9, signal.SIGKILL)]


@pytest.mark.looptime
async def test_descendants_that_do_not_end_are_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(processes, "descendants", lambda _pid: [8])
    monkeypatch.setattr("os.kill", lambda pid, _number: killed.append(pid))
    await kill_descendants(deadline_s=0.01)
    assert killed == [8]


@pytest.mark.parametrize(
    ("content", "error", "want"),
    [
        pytest.param(None, FileNotFoundError(2, "No such file"), "No such file", id="no file"),
        pytest.param(
            b"#!/bin/bash\r\nset -e\r\n",
            FileNotFoundError(2, "No such file"),
            "No such file; the file is there, but not the interpreter '/bin/bash\\r' that it names",
            id="a script with lines of Windows",
        ),
        pytest.param(
            b"\x7fELF\x02",
            FileNotFoundError(2, "No such file"),
            "No such file; the file is there, but not the interpreter that it names",
            id="a program for another C library",
        ),
        pytest.param(b"x", OSError(8, "Exec format error"), "Exec format error", id="no program"),
    ],
)
def test_why_a_program_cannot_be_started_is_told(
    tmp_path: Path, content: bytes | None, error: OSError, want: str
) -> None:
    if content is not None:
        (tmp_path / "run.sh").write_bytes(content)
    assert refusal(error, tmp_path / "run.sh") == want
