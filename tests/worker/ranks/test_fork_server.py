"""The process that forks ranks: what it has imported, who serves when, and that it does not outlive its launcher."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cotenant_worker.ranks.fork_protocol import FORK_MESSAGES, Forked, ForkRequest, PreloadDone, PreloadNext
from tests.support.pod_sandbox import until

FIRST, LATER = "colorsys", "this"
GATED = "module_behind_a_gate"
PROGRAM = f"""
import gc, os, sys
print([name in sys.modules for name in ("{FIRST}", "{LATER}")], gc.isenabled(), gc.get_freeze_count(),
      [x for x in os.listdir("/proc/self/fd") if int(x) > 3])
"""


class Server:
    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, directory: Path) -> None:
        self.process, self.control, self.directory = process, control, directory
        self.control.settimeout(60)
        assert isinstance(FORK_MESSAGES.decode(self.control.recv(1 << 16)), PreloadDone)

    def ahead(self) -> None:
        """Tell the server that the ranks have made steps, so that it may import ahead."""
        self.control.send(FORK_MESSAGES.encode(PreloadNext()))

    def rank(self, program: str = PROGRAM, meanwhile: Callable[[], object] = lambda: None) -> str:
        """Output of a rank that is forked now. The request is sent before `meanwhile` runs."""
        (self.directory / "program.py").write_text(program)
        read_end, write_end = os.pipe()
        request = ForkRequest(dict(os.environ), str(self.directory), "script", ("program.py",))
        socket.send_fds(self.control, [FORK_MESSAGES.encode(request)], [write_end])
        os.close(write_end)
        meanwhile()
        forked = FORK_MESSAGES.decode(self.control.recv(1 << 16))
        assert isinstance(forked, Forked)
        assert forked.pid
        with os.fdopen(read_end) as output:
            return output.read().splitlines()[-1]

    def family(self) -> list[int]:
        """All processes that hold the other end of our control socket."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if b"cotenant_worker.ranks.fork_server" in command and str(self.directory).encode() in environment_of(
                    entry
                ):
                    found.append(int(entry.name))
        return found


def environment_of(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""


@contextmanager
def server(directory: Path, later: str = LATER, first: str = FIRST) -> Iterator[Server]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-P", "-m", "cotenant_worker.ranks.fork_server", str(theirs.fileno()), first, later]
    env = {**os.environ, "MARK": str(directory), "PYTHONPATH": str(directory)}
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env, stdout=subprocess.DEVNULL)
    theirs.close()
    try:
        yield Server(process, ours, directory)
    finally:
        ours.close()
        process.wait(30)


def until_the_successor_serves(found: Server) -> str:
    until(lambda: len(found.family()) == 2, 60, "a successor")  # asking for a rank would put it off
    line: str = until(lambda: (line := found.rank()).startswith("[True, True]") and line, 60, "the successor")
    return line


def test_a_rank_that_is_asked_for_while_the_successor_imports_comes_from_the_successor(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    (tmp_path / f"{GATED}.py").write_text('import os; open(os.environ["MARK"] + "/gate").read()')
    with server(tmp_path, later=f"{GATED},{LATER}") as found:
        found.ahead()
        until(lambda: len(found.family()) == 2, 60, "a successor")
        line = found.rank(meanwhile=lambda: (tmp_path / "gate").write_bytes(b""))
    assert line.startswith("[True, True] True 0 "), line


def test_a_successor_gives_way_to_others_while_it_imports_and_its_ranks_do_not(tmp_path: Path) -> None:
    module = "import os, threading; nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())"
    (tmp_path / "module_that_looks.py").write_text(module)
    program = "import os, sys; print(sys.modules['module_that_looks'].nice, os.getpriority(os.PRIO_PROCESS, 0))"
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with server(tmp_path, later=f"module_that_looks,{LATER}") as found:
        until_the_successor_serves(found)
        assert found.rank(program) == f"19 {own}"


def test_a_rank_begins_as_after_an_ordinary_import(tmp_path: Path) -> None:
    with server(tmp_path, later="") as found:
        line = found.rank()
    assert line.startswith("[True, False] True 0 "), line
    assert line.endswith("[]"), line  # no descriptor of the server's


def test_a_successor_takes_over_with_more_imported(tmp_path: Path) -> None:
    with server(tmp_path) as found:
        line = until_the_successor_serves(found)
    assert line.startswith("[True, True] True 0 "), line
    assert line.endswith("[]"), line


@pytest.mark.parametrize(
    ("library", "draws"), [("torch", "torch.initial_seed(), torch.rand(1).item()"), ("numpy", "numpy.random.rand()")]
)
def test_ranks_of_a_pod_draw_other_random_numbers(tmp_path: Path, library: str, draws: str) -> None:
    """Both libraries draw their state when they are imported, which the server has done for all ranks."""
    with server(tmp_path, later="", first=library) as found:
        drawn = {found.rank(f"import {library}; print({draws})") for _ in range(3)}
    assert len(drawn) == 3, drawn


@pytest.mark.parametrize("when", ["at once", "when the successor serves"])
def test_all_end_with_the_launcher(tmp_path: Path, when: str) -> None:
    with server(tmp_path) as found:
        if when != "at once":
            until_the_successor_serves(found)
    until(lambda: not found.family(), 60, "the end of the servers")


def test_a_server_ends_with_the_successor_that_took_its_place(tmp_path: Path) -> None:
    """The launcher notices and starts another one, whatever it had asked of the dead one."""
    with server(tmp_path) as found:
        until_the_successor_serves(found)
        (successor,) = (pid for pid in found.family() if pid != found.process.pid)
        os.kill(successor, 9)
        assert found.process.wait(20) == 0
        with pytest.raises((OSError, ValueError)):
            found.rank()


def test_an_import_that_fails_ahead_leaves_the_server_as_it_is(tmp_path: Path) -> None:
    with server(tmp_path, later="a_module_that_nobody_has") as found:
        assert found.rank().startswith("[True, False] ")
        until(lambda: len(found.family()) == 2, 60, "the successor")
        assert found.rank().startswith("[True, False] ")
