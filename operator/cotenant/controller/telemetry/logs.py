"""Format of the operator's log, and a limit on repeated lines. The command line configures it once.

When the API server is in trouble, a thousand jobs may each log the same line every second. Of the lines from one place
in the code, some pass in each time window. The first line of the next window counts the dropped ones.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import aiohttp

from cotenant.contract.decoding.plain_log import PlainFormatter
from cotenant.contract.decoding.plain_text import plain_text

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LINES_PER_WINDOW, WINDOW_S = 5, 30.0
"""Lines of each kind in a window. INFO is not limited: each such line is an event of its own."""
OUTAGES: Final = (aiohttp.ClientError, ConnectionError, TimeoutError)
"""A broken connection or answer. After each of them kopf, or the feed that runs it, begins anew. Other OSErrors, such
as a file that is not there, are faults of the program.
"""


@dataclass(slots=True)
class _Window:
    began: float
    lines: int = 0
    left_out: int = 0


class RepeatLimit(logging.Filter):
    """Filter that bounds warnings and worse per kind. Thread-safe."""

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
            window.left_out += window.lines > LINES_PER_WINDOW
            return window.lines <= LINES_PER_WINDOW


def downgrade_retries(record: logging.LogRecord) -> bool:
    """Turn an error that kopf retries by itself into a short warning. Never drops a record."""
    if record.name.startswith("kopf.") and record.levelno == logging.ERROR and "will retry" in record.getMessage():
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = shorten(record.getMessage()), None
    return True


def drop_tracebacks_of_outages(record: logging.LogRecord) -> bool:
    """Drop the traceback of an outage of the API server in kopf's log, because the message says all. Never drops a
    record.
    """
    if record.name.startswith("kopf.") and record.exc_info and isinstance(record.exc_info[1], OUTAGES):
        record.exc_info = None
    return True


def error_text(error: BaseException, longest: int = 300) -> str:
    """Kind and message of an error, as one line that a terminal and a status can show: printable, and no longer."""
    return plain_text(f"{type(error).__name__}: {error}", longest).rstrip(": ")


def shorten(message: str, longest: int = 200) -> str:
    return message if len(message) <= longest else f"{message[:longest]} …"


def configure(level: str) -> None:
    logging.basicConfig(level=level.upper(), force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(PlainFormatter(FORMAT))
        handler.addFilter(downgrade_retries)
        handler.addFilter(drop_tracebacks_of_outages)
        handler.addFilter(RepeatLimit())
