"""Starts processes through the zygote and waits for their first report. All processes of pods start here.

The zygote is started again if it died. Processes that it forked earlier go on.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from cotenant_local.host import json_lines
from cotenant_local.runtime.shim import pipes

SOURCE_ROOT = str(Path(__file__).resolve().parents[3])
BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv[2]); from cotenant_local.runtime.inside.zygote import main; main()"
)


class LaunchError(Exception):
    """A process could not be started; the message is the report of the process itself."""


class ZygoteClient:
    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.requests: socket.socket | None = None

    def start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-I", "-S", "-c", BOOT, str(theirs.fileno()), SOURCE_ROOT]
        self.process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self.requests = ours

    def stop(self) -> None:
        if self.requests:
            self.requests.close()
        if self.process:
            self.process.wait()

    def send(self, request: dict[str, Any], fds: list[int]) -> None:
        """Sends copies of `fds`. The caller still closes its own."""
        if self.process is None or self.process.poll() is not None or self.requests is None:
            self.start()
        assert self.requests is not None
        socket.send_fds(self.requests, [json.dumps(request).encode()], fds)

    async def call(self, request: dict[str, Any], fds: list[int] | None = None) -> int:
        """Starts a process that reports once, on the descriptor before `fds`; its process id."""
        mine, theirs = os.pipe()
        try:
            self.send(request, [theirs, *(fds or ())])
        finally:
            os.close(theirs)
        async with pipes.reading(mine) as reader:
            return int((await read_report(reader))["pid"])


async def read_report(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The next report of a forked child; raises LaunchError for an error, or if there is none."""
    report = await json_lines.receive(reader)
    if report is None:
        raise LaunchError("the process ended before it said why; the runtime's log has its traceback")
    if "error" in report:
        raise LaunchError(report["error"])
    return report


async def receive_descriptor(ours: socket.socket) -> tuple[bytes, int]:
    """One message with one descriptor from a non-blocking socket; -1 when none came with it."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(ours, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(ours)
    message, fds, _, _ = socket.recv_fds(ours, 4096, 1)
    return message, fds[0] if fds else -1
