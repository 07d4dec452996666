"""Watches the pod's scratch volume and warns at 80 %. At 100 % the kubelet ends the pod within a second.

The kubelet adds up the sizes of the files, so the volume itself never looks full. This module does the same.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CHECK_INTERVAL_S: Final = 30.0
_REST: Final = 20
"""Looking at a million files takes long, so looks take at most a twentieth of the time."""
FULL: Final = 0.8
_BLOCK: Final = 512
"""Unit of `st_blocks`, in bytes."""


@dataclass(slots=True)
class ScratchSpace:
    limit_mib: int
    """Size of the volume; 0 without a limit."""
    warn: Callable[[str, str], None]
    """(key, text) of a warning of the job. An empty text withdraws it."""
    folder: Path = Path("/tmp")
    _told: bool = False

    async def watch(self) -> None:
        stopped = threading.Event()
        try:
            while self.limit_mib > 0:
                begin = time.monotonic()
                self.check(await asyncio.to_thread(used_mib, self.folder, stopped))
                await asyncio.sleep(max(_CHECK_INTERVAL_S, _REST * (time.monotonic() - begin)))
        finally:
            stopped.set()  # the end of the pod does not wait for a look at a million files

    def check(self, used: int) -> None:
        """Warn if this many MiB are too many, once until they are fewer."""
        full = used >= FULL * self.limit_mib
        if full is self._told:
            return
        self._told = full
        text = (
            f"{self.folder} is {100 * used // self.limit_mib} % full: {used / 1024:.1f} of {self.limit_mib / 1024:.1f}"
            " GiB. When it is full, the pod is evicted: ask for more in resources.scratch, or remove files"
        )
        self.warn("scratch", text if full else "")


def used_mib(folder: Path, stopped: threading.Event) -> int:
    """MiB of the files below `folder` on its own volume. A file with several names counts once."""
    blocks, seen = 0, set()
    device = os.stat(folder).st_dev
    for path, folders, files in os.walk(folder):
        if stopped.is_set():
            break
        for name in (*folders, *files):
            try:
                found = os.lstat(os.path.join(path, name))
            except OSError:
                continue  # it has just been removed
            if found.st_dev != device or (found.st_nlink > 1 and found.st_ino in seen):
                continue
            seen.add(found.st_ino)
            blocks += found.st_blocks
    return blocks * _BLOCK >> 20
