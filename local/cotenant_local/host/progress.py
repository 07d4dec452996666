"""Progress of a long task: one changing line on a terminal, a line now and then elsewhere."""

import shutil
import time
from typing import Final, TextIO

QUIET_INTERVAL_S: Final = 15.0
"""Seconds between lines where there is no terminal (a CI log)."""
DRAW_INTERVAL_S: Final = 0.1


class Progress:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._start = time.monotonic()
        self._last = self._start if not self._terminal else 0.0
        self._open_line = False

    def log(self, message: str) -> None:
        self.end()
        print(f"» {message}", file=self._stream, flush=True)

    def update(self, message: str, *, detail: str = "") -> None:
        now = time.monotonic()
        if now - self._last < (DRAW_INTERVAL_S if self._terminal else QUIET_INTERVAL_S):
            return
        self._last = now
        minutes, seconds = divmod(int(now - self._start), 60)
        text = f"  {minutes}:{seconds:02d} {message}"
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{f'{text}  {detail}'[:width]}", end="", file=self._stream, flush=True)
            self._open_line = True
        else:
            print(text, file=self._stream, flush=True)

    def end(self) -> None:
        if self._open_line:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
            self._open_line = False
