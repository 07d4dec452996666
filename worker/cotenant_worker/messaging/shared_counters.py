"""Counters shared by one rank and its launcher: a memory-mapped file, read and written without a system call.

The rank counts its safe points (`should_stop()` calls) in it, and the launcher writes at which count all ranks stop. So
every rank leaves after the same step, although no message reaches them all at the same moment.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

_INT64: Final = struct.Struct("<q")
_COUNTERS: Final = ("calls", "stop_at", "step", "sequence", "listener", "trainer")
_SIZE: Final = 64


class SharedCounters:
    """Counters of one start of a rank. `stop_at` belongs to the launcher, all others to the rank. `listener` is the PID
    of a process that learns of a stop by its safe points and cannot take SIGTERM over, `trainer` of the one that makes
    the steps.
    """

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)

    def get(self, counter: str) -> int:
        value: int = _INT64.unpack_from(self._memory, _COUNTERS.index(counter) * 8)[0]
        return value

    def set(self, counter: str, value: int) -> None:
        _INT64.pack_into(self._memory, _COUNTERS.index(counter) * 8, value)


def common_stop_call(calls: list[int], rate: float) -> int:
    """The safe point at which every rank stops: one that no rank can have passed before all know its number.

    `rate` is safe points per second. The number spreads in a twentieth of a second; ten times that is allowed.
    """
    return max(calls, default=0) + 1 + int(rate * 0.5)
