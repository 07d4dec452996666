"""The time now, as the cluster has it: this machine's clock may be wrong, and ages would be too.

Each answer has the time of the API server, or of the operator behind it. If that differs from this machine's clock, it
counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

DIFFERS_S: Final = 5.0
"""Clocks that differ by less count as equal: an answer has whole seconds, and takes its time on the way."""


@dataclass(slots=True)
class Clock:
    local: Callable[[], datetime]
    """This machine's time."""
    ahead: timedelta = timedelta()
    """How far the cluster's clock is ahead of this machine's, by its last answer."""

    def note(self, date: str | None) -> None:
        """Take the header `Date` of an answer that has just come."""
        try:
            ahead = parsedate_to_datetime(date or "").astimezone(UTC) - self.local()
        except ValueError:
            return
        self.ahead = ahead if abs(ahead.total_seconds()) >= DIFFERS_S else timedelta()

    def now(self) -> datetime:
        """The cluster's time now; before its first answer, this machine's."""
        return self.local() + self.ahead


clock: Final = Clock(lambda: datetime.now(UTC))
