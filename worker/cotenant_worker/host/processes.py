"""Child processes of the launcher: started in sessions of their own, their output forwarded, their exit codes
collected.

The launcher is PID 1 or a subreaper, so every orphan of the pod becomes its child. One SIGCHLD handler waits for all of
them, and `ChildProcess.exit` resolves for those it knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import select
import signal
import subprocess
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cotenant_worker.host.output_lines import MAX_UNENDED_BYTES, PrefixedLines, as_text
from cotenant_worker.host.procfs import descendants

_TAIL_LINES: Final = 100
"""Enough for a traceback through a deep library, of which `traceback_excerpt` makes an excerpt."""
_PR_SET_CHILD_SUBREAPER: Final = 36
_log_turn: Final = asyncio.Lock()
"""Lines of two ranks do not mix."""
_forwarding: Final[set[asyncio.Task[None]]] = set()


@dataclass(slots=True)
class ChildProcess:
    """A process that the launcher started, and its session."""

    name: str
    pid: int
    exit: asyncio.Future[int]
    """The exit code, or minus the number of the signal."""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))
    output: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        return not self.exit.done()

    def record_output(self, lines: Sequence[bytes]) -> None:
        """Keep the last lines, and the final state of a progress bar. A flood of output costs little."""
        last = [line for line in lines[-2 * _TAIL_LINES :] if line.strip()][-_TAIL_LINES:]
        self.tail.extend(as_text(line)[:500] for line in last)

    def signal(self, number: int, *, group: bool = False) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number) if group else os.kill(self.pid, number)


class ChildWatcher:
    """Starts children and reaps all processes. One per launcher."""

    def __init__(self) -> None:
        self._children: dict[int, ChildProcess] = {}
        self._unclaimed_exits: OrderedDict[int, int] = OrderedDict()

    def start(self) -> None:
        """Become the reaper of every orphan in this pod and listen for SIGCHLD."""
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            child = self._children.pop(pid, None)
            if child is not None and not child.exit.done():
                child.exit.set_result(code)
            elif child is None:
                self._unclaimed_exits[pid] = code
                while len(self._unclaimed_exits) > 256:
                    self._unclaimed_exits.popitem(last=False)

    def adopt(self, name: str, pid: int) -> ChildProcess:
        """Watch a process that the fork server forked. It is, or soon will be, our child."""
        child = ChildProcess(name, pid, asyncio.get_running_loop().create_future())
        if pid in self._unclaimed_exits:
            child.exit.set_result(self._unclaimed_exits.pop(pid))
        else:
            self._children[pid] = child
        return child

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str,
        output: int,
        keep: Sequence[int] = (),
    ) -> ChildProcess:
        """Start `argv` in a session of its own. stdout and stderr go to the descriptor `output`."""
        process = subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=tuple(keep),
            start_new_session=True,
        )
        child = self.adopt(name, process.pid)
        process.returncode = 0  # the handler above reaps it; Popen must not try
        return child


def refusal(error: OSError, program: Path) -> str:
    """Why the kernel does not start a program. It calls one missing whose first line names a missing interpreter."""
    text = error.strerror or str(error)
    if isinstance(error, PermissionError):
        hint = "is it executable? A file of a ConfigMap is not: name its interpreter first, as in [bash, run.sh]"
        return f"{text}; {hint}"
    with contextlib.suppress(OSError):
        if isinstance(error, FileNotFoundError) and program.is_file():
            with program.open("rb") as file:
                first = file.readline(256)
            words = os.fsdecode(first[2:]).strip(" \n")
            named = f" {words!r}" if first.startswith(b"#!") else ""
            return f"{text}; the file is there, but not the interpreter{named} that it names"
    return text


async def write_log(data: bytes, descriptor: int = 1) -> None:
    """Write to the pod's log when its reader takes it. A runtime that restarts reads nothing for a while: then those
    who print wait, and process 1 goes on.
    """
    async with _log_turn:
        for begin in range(0, len(data), select.PIPE_BUF):
            await _writable(descriptor)
            os.write(descriptor, data[begin : begin + select.PIPE_BUF])  # so much fits, or it would not be writable


async def _writable(descriptor: int) -> None:
    asked = select.poll()
    asked.register(descriptor, select.POLLOUT)
    if asked.poll(0):
        return
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)


def forwarding(descriptor: int, child: ChildProcess, prefix: str) -> asyncio.Task[None]:
    """A task that forwards a child's output. `finish_logs` waits for it."""
    task = asyncio.create_task(forward_output(descriptor, child, prefix))
    _forwarding.add(task)
    task.add_done_callback(_forwarding.discard)
    return task


async def finish_logs(deadline_s: float = 5.0) -> None:
    """Wait until what children have printed is in the log, at their end."""
    if _forwarding:
        await asyncio.wait(set(_forwarding), timeout=deadline_s)


async def forward_output(descriptor: int, child: ChildProcess, prefix: str) -> None:
    """Forward a child's output as it comes, and remember its last lines."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    rest = b""
    prefixed = PrefixedLines(prefix.encode()) if prefix else None
    while True:
        try:
            async with asyncio.timeout(prefixed.timeout_s(loop.time()) if prefixed else None):
                chunk = await reader.read(1 << 16)
        except TimeoutError:
            await write_log(prefixed.add(b"", loop.time()) if prefixed else b"")
            continue
        if not chunk:
            break
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()[-MAX_UNENDED_BYTES:]
        child.record_output(lines)
        await write_log(prefixed.add(chunk, loop.time()) if prefixed else chunk)
    if rest:
        child.record_output([rest])
    # The launcher's own output, which comes next, begins a line.
    await write_log(prefixed.end() if prefixed else b"\n" if rest else b"")
    transport.close()


async def kill_descendants(deadline_s: float = 5.0) -> None:
    """SIGKILL everything below us until nothing is left."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while (left := descendants(os.getpid())) and loop.time() < end:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.02)
