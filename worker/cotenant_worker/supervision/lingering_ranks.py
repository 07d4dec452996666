"""Ranks of this pod whose program is over but whose process still runs.

The program has failed or returned, and a thread of it (a monitor, an uploader) keeps the interpreter alive. The shim
records an exception that ends the program, and the threads that are left when the main one ends. A failed rank gives
its GPUs up after half a minute. One that has returned may still upload results: it causes a warning, and is
ended after hours, with its own exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from cotenant_worker.supervision.rank_error import RankError

FAILED_S: Final = 30.0
"""Time for a failed program to end its threads."""
HELD_S: Final = 6 * 3600.0
"""Time for a program that has returned to end its threads: no upload takes so long."""
KILL_S: Final = 10.0
"""From SIGTERM to SIGKILL."""
RETURNED_S: Final = 120.0
"""A program that has returned and still runs after this time causes a warning."""


@dataclass(frozen=True, slots=True)
class Lingering:
    """What is known about a live rank that should have ended."""

    rank: int
    generation: int
    error: RankError | None = None
    """The exception that ended the program of its own process."""
    threads: tuple[str, ...] = ()
    """Names of the threads that keep it alive."""
    code: int = 0
    """The exit code with which its program has ended."""


@dataclass(slots=True)
class LingeringRanks:
    lingering: Callable[[], Iterable[Lingering]]
    end: Callable[[int, int, bool], None]
    """(rank, its exit code, by force): ask its processes to leave, or kill them."""
    warn: Callable[[str, str], None]
    _since: dict[tuple[int, int], float] = field(default_factory=dict)
    """(rank, generation) → when it was first seen to linger."""
    _asked: dict[tuple[int, int], bool] = field(default_factory=dict)
    _warned: set[tuple[int, int]] = field(default_factory=set)

    def check(self, now: float) -> None:
        """Act on what lingers `now`, on any monotonic clock."""
        for each in self.lingering():
            run = (each.rank, each.generation)
            for_s = now - self._since.setdefault(run, now)
            failed = each.error is not None
            if not failed and for_s >= RETURNED_S and run not in self._warned:
                self._warned.add(run)
                self.warn(f"lingers-{each.rank}", _describe(each, for_s))
            over_s = for_s - (FAILED_S if failed else HELD_S)
            if over_s >= 0 and self._asked.get(run) is not (over_s >= KILL_S):
                self._asked[run] = over_s >= KILL_S
                self.end(each.rank, 1 if failed else each.code, over_s >= KILL_S)


def _describe(each: Lingering, for_s: float) -> str:
    who = ", ".join(each.threads) or "a thread"
    return (
        f"rank {each.rank} returned {for_s:.0f} s ago and does not leave: {who} keeps it. It holds its GPUs until then,"
        f" at most for {HELD_S / 3600:.0f} hours: let the program end or join what it starts, or make it a daemon"
        " thread"
    )
