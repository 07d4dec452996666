"""The launcher's side of the fork server: requests ranks from it, and starts another one if it has ended.

`fork_server` says why it is not `multiprocessing.forkserver`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cotenant_worker.host import layout
from cotenant_worker.host.processes import ChildProcess, ChildWatcher
from cotenant_worker.messaging.codec import MessageError
from cotenant_worker.ranks.fork_protocol import (
    DATAGRAM_LIMIT_BYTES,
    FORK_MESSAGES,
    Forked,
    ForkRequest,
    PreloadDone,
    PreloadNext,
)
from cotenant_worker.ranks.program import Preloads

M = TypeVar("M", PreloadDone, Forked)

_PRELOAD_TIMEOUT_S = 120.0
"""Deadline for the imports of a program. After it, a rank is started without them."""


def has_spare_cpu(cpus: int, ranks: int) -> bool:
    """True if deferred imports take no CPU time from ranks that are starting.

    They run at a low priority, but what they use counts against the pod's limit, so one CPU has to be left.
    """
    return cpus > ranks


@dataclass(slots=True)
class _ForkServer:
    """The server's process, and our end of its control socket."""

    child: ChildProcess
    control: socket.socket
    ready: bool = False


@dataclass(slots=True)
class ForkClient:
    children: ChildWatcher
    environment: Mapping[str, str]
    """The environment in which the server imports."""
    preloads: Preloads
    mark_phase: Callable[[str, float], None]
    """(start-up phase, seconds since then) for the table of timings."""
    enabled: bool
    """False for programs that are not Python, which have nothing to import."""
    directory: str = "/"
    """Where ranks start. Relative entries of PYTHONPATH are meant from there."""
    _server: _ForkServer | None = None

    def start(self) -> None:
        """Start to import the program's modules, while everything else is still starting."""
        if not self.enabled:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, "-m", "cotenant_worker.ranks.fork_server", str(theirs.fileno())]
        argv += [",".join(self.preloads.required), ",".join(self.preloads.deferred)]
        output = os.open(layout.state_dir() / "fork-server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        keep = [theirs.fileno()]
        places = [
            os.path.join(self.directory, part) for part in self.environment.get("PYTHONPATH", "").split(":") if part
        ]
        env = {**self.environment, **({"PYTHONPATH": ":".join(places)} if places else {})}
        child = self.children.spawn("fork-server", argv, env, cwd="/", output=output, keep=keep)
        os.close(output)
        theirs.close()
        ours.setblocking(False)
        self._server = _ForkServer(child, ours)

    def preload_next(self) -> None:
        """Let the server use CPU time for deferred imports, for the next start."""
        if self._server is not None and self._server.ready:
            with contextlib.suppress(OSError):  # it has ended: the next start notices
                self._server.control.send(FORK_MESSAGES.encode(PreloadNext()))

    async def fork(self, request: ForkRequest, output: int) -> int | None:
        """The pid of a forked rank; None if there is no server, or it failed."""
        server = self._server
        if server is None:
            return None
        if server.child.alive:
            with contextlib.suppress(OSError, TimeoutError, ValueError):
                return await self._ask(server, request, output)
        self.kill()
        self.enabled = server.ready  # one that cannot import the modules is not tried again: the program tells why
        self.start()  # for the next start; this one does not wait again
        return None

    async def _ask(self, server: _ForkServer, request: ForkRequest, output: int) -> int | None:
        async with asyncio.timeout(_PRELOAD_TIMEOUT_S):
            if not server.ready:
                done = await self._receive(server, PreloadDone)
                server.ready = True
                self.mark_phase("imports done", time.monotonic() - done.at_monotonic_s)
            socket.send_fds(server.control, [FORK_MESSAGES.encode(request)], [output])
            return (await self._receive(server, Forked)).pid or None

    async def _receive(self, server: _ForkServer, kind: type[M]) -> M:
        """The next message. Raises MessageError, a ValueError, if the server has ended or sends another kind."""
        data = await asyncio.get_running_loop().sock_recv(server.control, DATAGRAM_LIMIT_BYTES)
        message = FORK_MESSAGES.decode(data)
        if not isinstance(message, kind):
            raise MessageError(f"{type(message).__name__} instead of {kind.__name__}")
        return message

    def kill(self) -> None:
        if self._server is not None:
            self._server.child.signal(signal.SIGKILL)
            self._server.control.close()
            self._server = None
