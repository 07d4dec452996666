"""Shared words between one rank and its launcher: a memory-mapped file, read and written without a system call.

The rank counts its safe points (`should_stop()` calls) in it; the launcher writes at which count all ranks stop. That
is how every rank leaves after the same step although no message reaches them all at the same moment.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

_WORD: Final = struct.Struct("<q")
_WORDS: Final = ("calls", "stop_at", "step", "sequence", "saved_step")
_SIZE: Final = 64


class Cell:
    """One rank's words. `calls`, `step`, `sequence`, `saved_step` belong to the rank, `stop_at` to the launcher."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)

    def get(self, word: str) -> int:
        value: int = _WORD.unpack_from(self._memory, _WORDS.index(word) * 8)[0]
        return value

    def set(self, word: str, value: int) -> None:
        _WORD.pack_into(self._memory, _WORDS.index(word) * 8, value)

    def close(self) -> None:
        self._memory.close()


def stop_count(calls: list[int], rate: float) -> int:
    """The safe point at which every rank stops: beyond where any rank can be once the word has spread.

    `rate` is safe points per second; half a second is ten times what the word needs.
    """
    return max(calls, default=0) + 1 + int(rate * 0.5)
