"""All processes of a rank: those of its session, and those that it started in sessions of their own.

Wrappers and daemons do that. Who asks a rank to leave, or ends it, means these too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from typing import Final

from cotenant_worker.host import layout, procfs

_LEFT_BEHIND_S: Final = 1.0
"""For processes of a rank that end soon after it."""


@dataclass(frozen=True, slots=True)
class ProcessTree:
    first: int
    """PID of the rank's first process, which leads its session."""
    rank: int
    generation: int

    @property
    def _variables(self) -> tuple[str, str]:
        """What only processes of this start of the rank have in their environment."""
        return f"COTENANT_RANK={self.rank}", f"{layout.ENV_GENERATION}={self.generation}"

    def pids(self) -> list[int]:
        return procfs.rank_pids(os.getpid(), self.first, self._variables)

    def members(self) -> list[procfs.Member]:
        return procfs.rank_members(os.getpid(), self.first, self._variables)

    def signal(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)

    def kill(self) -> None:
        """SIGKILL what there is."""
        for pid in self.pids():
            self.signal(pid, signal.SIGKILL)

    async def left_behind(self) -> tuple[str, ...]:
        """Command lines of what the rank left running. What ends by itself at once, as Python's trackers do, is not."""
        if self.pids():
            await asyncio.sleep(_LEFT_BEHIND_S)
        return tuple(procfs.command_line(pid)[:100] for pid in self.pids()[:4])
