"""The launcher's side of the warm process (`warm`): asks it for ranks, replaces it when it has ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant_worker.host import layout
from cotenant_worker.host.processes import ChildProcess, ChildWatcher
from cotenant_worker.ranks.program import Preloads

_PATIENCE_S = 120.0
"""For the imports of a program, before a rank is started without them."""


def roomy(cpus: int, ranks: int) -> bool:
    """Whether looking ahead takes no CPU time from ranks that are just starting. It gives way to them on each CPU, but
    what it uses counts against the pod's limit, so a CPU has to be left.
    """
    return cpus > ranks


@dataclass(slots=True)
class _Warm:
    """The process that forks ranks, and our end of its control socket."""

    child: ChildProcess
    control: socket.socket
    ready: bool = False


@dataclass(slots=True)
class Forks:
    nursery: ChildWatcher
    base: Mapping[str, str]
    """The environment that the warm process imports in."""
    ahead: Preloads
    mark: Callable[[str, float], None]
    """For the table of start-up phases: what happened, how many seconds ago."""
    possible: bool
    """Programs that are not Python have nothing to import."""
    _warm: _Warm | None = None

    def warm_up(self) -> None:
        """Begin importing what the program will import, while everything else is still starting."""
        if not self.possible:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, "-P", "-m", "cotenant_worker.ranks.fork_server", str(theirs.fileno())]
        argv += [",".join(self.ahead.first), ",".join(self.ahead.later)]
        output = os.open(layout.state_dir() / "warm.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        child = self.nursery.spawn("warm", argv, self.base, cwd="/", output=output, keep=[theirs.fileno()])
        os.close(output)
        theirs.close()
        ours.setblocking(False)
        self._warm = _Warm(child, ours)

    def look_ahead(self) -> None:
        """From now on the warm process may take CPU time to be ready for the next start."""
        if self._warm is not None and self._warm.ready:
            with contextlib.suppress(OSError):  # it has ended: the next start finds that out
                self._warm.control.send(json.dumps({"ahead": True}).encode())

    async def fork(self, request: dict[str, Any], output: int) -> int | None:
        """The pid of a rank forked from the warm process; None when there is none or it failed."""
        warm = self._warm
        if warm is None:
            return None
        if not warm.child.alive:
            self._renew()
            return None
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, TimeoutError, ValueError):
            async with asyncio.timeout(_PATIENCE_S):
                if not warm.ready:
                    ready_at = float(json.loads(await loop.sock_recv(warm.control, 1 << 16))["ready"])
                    warm.ready = True
                    self.mark("imports done", time.time() - ready_at)
                socket.send_fds(warm.control, [json.dumps(request).encode()], [output])
                pid = int(json.loads(await loop.sock_recv(warm.control, 1 << 16))["pid"])
                return pid or None
        self._renew()  # for the next start; this one does not wait again
        return None

    def _renew(self) -> None:
        self.retire()
        self.warm_up()

    def retire(self) -> None:
        if self._warm is not None:
            self._warm.child.signal(signal.SIGKILL)
            self._warm.control.close()
            self._warm = None
