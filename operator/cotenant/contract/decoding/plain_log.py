"""Lines of a log that quote foreign text, for a terminal to show."""

from __future__ import annotations

import logging
from typing import Any, Final

from cotenant.contract.decoding.plain_text import plain_text

LINE_CHARS_MAX: Final = 8000
TRACEBACK_CHARS_MAX: Final = 32_000


class PlainFormatter(logging.Formatter):
    """One line for one record, then its traceback: what is quoted in it can neither end the line nor move a cursor."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return plain_text(super().formatMessage(record), LINE_CHARS_MAX)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's own name
        return plain_text(super().formatException(ei), TRACEBACK_CHARS_MAX, lines=True)
