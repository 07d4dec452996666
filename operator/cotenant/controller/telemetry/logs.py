"""How the operator's log is written: one format, and no floods. Set up once, by the command line.

When the API server is in trouble, a thousand jobs may each have the same to say every second. Of lines of one kind (one
place in the code) some are let through in each window; the first of the next window says how many were not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LINES, WINDOW_S = 5, 30.0
"""Of each kind; what is merely told (INFO) is not limited: each such line is something that happened once."""


@dataclass(slots=True)
class _Window:
    began: float
    lines: int = 0
    left_out: int = 0


class Limit(logging.Filter):
    """Warnings and worse, bounded per kind. Safe to use from several threads."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, str, int], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        now, kind = self._clock(), (record.name, record.funcName, record.lineno)
        with self._lock:
            window = self._windows.get(kind)
            if window is None or now - window.began >= WINDOW_S:
                left_out = window.left_out if window else 0
                self._windows[kind] = window = _Window(now)
                if left_out:
                    record.msg = f"{record.msg} (and {left_out} more lines like this since the last one)"
            window.lines += 1
            window.left_out += window.lines > LINES
            return window.lines <= LINES


def soften(record: logging.LogRecord) -> bool:
    """What kopf will try again by itself is no error, and one sentence of it is enough."""
    if record.name.startswith("kopf.") and record.levelno == logging.ERROR and "will retry" in record.getMessage():
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = shortened(record.getMessage()), None
    return True


def shortened(message: str, longest: int = 200) -> str:
    return message if len(message) <= longest else f"{message[:longest]} …"


def set_up(level: str) -> None:
    logging.basicConfig(level=level.upper(), format=FORMAT, force=True)
    for handler in logging.getLogger().handlers:
        handler.addFilter(soften)
        handler.addFilter(Limit())
