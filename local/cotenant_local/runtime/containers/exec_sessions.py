"""One more program in a running container: `ExecSync`, exec. It ends when its `ExecSession` is closed."""

import asyncio
import os
import socket
from typing import Any

from cotenant_local.runtime.containers import disk_records
from cotenant_local.runtime.containers.container import Container
from cotenant_local.runtime.inside import io_loop
from cotenant_local.runtime.shim import pipes
from cotenant_local.runtime.shim.zygote_client import ZygoteClient, read_report, receive_descriptor

ExitCode = int


class ExecSession:
    """A started program: streams, terminal, exit code."""

    def __init__(self, reports: int, control: socket.socket) -> None:
        self._reports = reports
        self._control = control
        self.stdin = -1
        self.outputs: dict[str, int] = {}
        self.terminal = -1
        self.code: asyncio.Task[ExitCode] | None = None

    async def started(self) -> None:
        """Raises LaunchError when the program cannot run."""
        reader, transport = await pipes.open_reader(self._reports)
        try:
            await read_report(reader)
        except BaseException:
            transport.close()
            raise

        async def code() -> ExitCode:
            try:
                return int((await read_report(reader))["exit_code"])
            finally:
                transport.close()

        self.code = asyncio.create_task(code())

    async def receive_terminal(self) -> None:
        """The outer side of the terminal that was made inside the container."""
        _, self.terminal = await receive_descriptor(self._control)
        if self.terminal >= 0:
            self.stdin, self.outputs = os.dup(self.terminal), {"stdout": os.dup(self.terminal)}

    def resize(self, rows: int, columns: int) -> None:
        if self.terminal >= 0:
            io_loop.resize(self.terminal, rows, columns)

    def close(self) -> None:
        """Kills the program if it still runs."""
        self._control.close()
        if self.terminal >= 0:
            os.close(self.terminal)
            self.terminal = -1


def request(container: Container, command: list[str], *, tty: bool) -> dict[str, Any]:
    """The program gets the container's user, environment, folder and limits."""
    pid = container.pid
    document = disk_records.read(container.folder / "spec.json") or {}
    process = {**document["process"], "args": command}
    if tty:
        process["env"] = {**process["env"], "TERM": "xterm"}
    return {"task": "exec", "pid": pid, "process": process, "tty": tty, "cgroup_files": document["cgroup_files"]}


async def start(
    zygote: ZygoteClient, container: Container, command: list[str], *, stdin: bool = False, tty: bool = False
) -> ExecSession:
    """Returns when the program runs; raises StateError, LaunchError."""
    document = request(container, command, tty=tty)
    reports, report = os.pipe()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    session = ExecSession(reports, ours)
    inner = [report, os.dup(theirs.fileno())]
    theirs.close()
    if not tty:
        inner += _pipes(session, stdin=stdin)
    try:
        zygote.send(document, inner)
    finally:
        for fd in inner:
            os.close(fd)
    try:
        if tty:
            await session.receive_terminal()
        await session.started()
    except BaseException:
        for fd in (session.stdin, *session.outputs.values()):
            if fd >= 0:
                os.close(fd)
        session.close()
        raise
    return session


def _pipes(session: ExecSession, *, stdin: bool) -> list[int]:
    """Makes the streams; the inner ends in the order 0, 1, 2."""
    if stdin:
        read, session.stdin = os.pipe()
    else:
        read = os.open(os.devnull, os.O_RDONLY)
    inner = [read]
    for stream in ("stdout", "stderr"):
        session.outputs[stream], write = os.pipe()
        inner.append(write)
    return inner


async def run(
    zygote: ZygoteClient, container: Container, command: list[str], *, timeout: float, limit: int = 16 << 20
) -> tuple[bytes, bytes, ExitCode]:
    """A program to its end, its output cut at `limit`; raises TimeoutError after killing it."""
    session = await start(zygote, container, command)
    assert session.code is not None
    readers = [asyncio.create_task(_collect(fd, limit)) for fd in session.outputs.values()]
    try:
        async with asyncio.timeout(timeout or None):
            code = await asyncio.shield(session.code)
            out, err = await asyncio.gather(*readers)
    except TimeoutError as error:
        raise TimeoutError(f"command {command} timed out after {timeout:.0f} s") from error
    finally:
        session.close()
        for reader in readers:
            reader.cancel()
    return out, err, code


async def _collect(fd: int, limit: int) -> bytes:
    kept = bytearray()
    async with pipes.reading(fd) as reader:
        while data := await reader.read(1 << 16):
            kept += data[: limit - len(kept)]
    return bytes(kept)
