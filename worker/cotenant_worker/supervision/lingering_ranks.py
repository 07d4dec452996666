"""Ranks of this pod whose program is over but whose process still runs.

The program has failed or returned, and a thread of it (a monitor, an uploader) keeps the interpreter alive. The shim
records an exception that ends the program, and the threads that are left when the main one ends. A failed rank gives
its GPUs up after half a minute. One that has returned may still upload results: it only causes a warning.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from cotenant_worker.supervision.rank_error import RankError

FAILED_S: Final = 30.0
"""Time for a failed program to end its threads."""
KILL_S: Final = 10.0
"""From SIGTERM to SIGKILL."""
RETURNED_S: Final = 120.0
"""A program that has returned and still runs after this time causes a warning."""
_CHECK_INTERVAL_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Lingering:
    """What is known about a live rank that should have ended."""

    rank: int
    generation: int
    error: RankError | None = None
    """The exception that ended the program of its own process."""
    threads: tuple[str, ...] = ()
    """Names of the threads that keep it alive."""


@dataclass(slots=True)
class LingeringRanks:
    lingering: Callable[[], Iterable[Lingering]]
    end: Callable[[int, bool], None]
    """(rank, by force): ask its processes to leave, or kill them."""
    warn: Callable[[str, str], None]
    _since: dict[tuple[int, int], float] = field(default_factory=dict)
    """(rank, generation) → when it was first seen to linger."""
    _asked: dict[tuple[int, int], bool] = field(default_factory=dict)
    _warned: set[tuple[int, int]] = field(default_factory=set)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            self.check(time.monotonic())

    def check(self, now: float) -> None:
        """Act on what lingers `now`, on a clock that nobody sets."""
        for each in self.lingering():
            run = (each.rank, each.generation)
            for_s = now - self._since.setdefault(run, now)
            if each.error is not None:
                self._end(run, for_s)
            elif for_s >= RETURNED_S and run not in self._warned:
                self._warned.add(run)
                self.warn(f"lingers-{each.rank}", _describe(each, for_s))

    def _end(self, run: tuple[int, int], for_s: float) -> None:
        force = for_s >= FAILED_S + KILL_S
        if for_s >= FAILED_S and self._asked.get(run) is not force:
            self._asked[run] = force
            self.end(run[0], force)


def _describe(each: Lingering, for_s: float) -> str:
    who = ", ".join(each.threads) or "a thread"
    return (
        f"rank {each.rank} returned {for_s:.0f} s ago and does not leave: {who} keeps it. It holds its GPUs until then:"
        " let the program end or join what it starts, or make it a daemon thread"
    )
