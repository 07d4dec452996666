"""All processes of a rank: those in its session, and those that it started in sessions of their own, as wrappers and
daemons do.

A rank that is asked to leave or killed includes all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from typing import Final

from cotenant_worker.host import layout, procfs

_CLEANERS: Final = ("resource_tracker import main", "torch_shm_manager")
"""In the command lines of Python's and joblib's tracker, and of torch's."""
_LEFT_BEHIND_S: Final = 1.0
"""Processes of a rank may end this long after it."""


@dataclass(frozen=True, slots=True)
class ProcessTree:
    first: int
    """PID of the rank's first process, which leads its session."""
    rank: int
    generation: int

    @property
    def _variables(self) -> tuple[str, str]:
        """Variables that only processes of this start of the rank have."""
        return f"COTENANT_RANK={self.rank}", f"{layout.ENV_GENERATION}={self.generation}"

    def pids(self) -> list[int]:
        return procfs.rank_pids(os.getpid(), self.first, self._variables)

    def members(self) -> list[procfs.Member]:
        return procfs.rank_members(os.getpid(), self.first, self._variables)

    def signal(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)

    def kill(self) -> None:
        """SIGKILL all of them."""
        for pid in self.pids():
            self.signal(pid, signal.SIGKILL)

    def kill_but_cleaners(self) -> None:
        """SIGKILL all but those that remove shared memory and semaphores once all others are gone, and then end. One
        that is just being executed is spared too, because it may become such a process; `kill` ends it later.
        """
        for pid in self.pids():
            line = procfs.command_line(pid)
            if line and not any(part in line for part in _CLEANERS):
                self.signal(pid, signal.SIGKILL)

    async def left_behind(self) -> tuple[str, ...]:
        """Command lines of what the rank left running, without processes that end at once, as Python's trackers do."""
        if self.pids():
            await asyncio.sleep(_LEFT_BEHIND_S)
        return tuple(procfs.command_line(pid)[:100] or f"process {pid}" for pid in self.pids()[:4])
