"""Files in /dev/shm that killed ranks of this pod have left. Linux.

Python's tracker removes segments that `multiprocessing` made. Libraries that name their own (mosaicml-streaming) take
one that is there for that of a running program, and end. What is left also counts as memory of the pod. A pod that is
made anew begins with an empty folder, so ranks that start again in place find one as empty.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class SharedMemory:
    folder: Path = Path("/dev/shm")
    others: frozenset[str] | None = None
    """Files that were there before the first ranks; None before them."""

    def begin(self) -> None:
        """Call it before ranks start, while none runs. Folders stay: a program has put data there."""
        found = self._files()
        if self.others is None:
            self.others = found
        for name in found - self.others:
            with contextlib.suppress(OSError):
                (self.folder / name).unlink()

    def _files(self) -> frozenset[str]:
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        return frozenset()
