"""Deadlines in seconds of CPU that the machine grants, not seconds of the clock.

A deadline says how long something takes on an idle machine. If other processes compute as well, a process
gets one part in as many as want to run on each core, so that a second of the clock counts as that part of a second.
Amounts come from /proc/loadavg (proc(5)): the average of the last minute, and how many want to run at this moment.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOAD = Path("/proc/loadavg")
MOST: Final = 10.0
"""A deadline becomes at most this many times as long: what never comes is told all the same."""


def slowdown() -> float:
    """How many times longer than alone everything takes now: 1.0 on a machine with a core to spare."""
    try:
        minute, _, _, running, *_ = LOAD.read_text().split()
        wanting = max(float(minute), float(running.partition("/")[0]) - 1)  # without the process that reads
    except (OSError, ValueError):
        return 1.0
    return min(MOST, max(1.0, wanting / len(os.sched_getaffinity(0))))


def stretched(seconds: float) -> float:
    """The deadline as it is now, for a wait that takes one number."""
    return seconds * slowdown()


class Patience:
    """A deadline in seconds of an idle machine, asked again and again while something is waited for."""

    def __init__(
        self,
        seconds: float,
        *,
        slowed: Callable[[], float] = slowdown,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self._slowed, self._clock = slowed, clock
        self._left = seconds
        self._started = self._last = clock()

    def exhausted(self) -> bool:
        """Counts the time since the last call, scaled by how busy the machine is now."""
        now = self._clock()
        self._left -= (now - self._last) / self._slowed()
        self._last = now
        return self._left < 0

    def __str__(self) -> str:
        """Text such as "120 s", and on a busy machine "504 s (120 s of an idle machine)"."""
        waited = self._last - self._started
        idle = f"{self.seconds:.0f} s"
        return f"{waited:.0f} s ({idle} of an idle machine)" if waited > 1.5 * self.seconds + 2 else idle
