"""How a running job used its GPUs in the last minutes: sums by the minute, a bounded number of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cotenant.decision_log.measured_use import NOTHING_MEASURED, MeasuredUse

SLOT_S: Final = 60.0
SLOTS: Final = 10
GAP_S: Final = 3 * SLOT_S
"""After so long without a look nothing is known of the time between: the window begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseWindow:
    """Looks at the GPUs of one attempt, from `opened_at` of its first minute on."""

    attempt: int
    opened_at: float
    """Unix seconds: when the minute began that is not over."""
    looked_at: float
    open: MeasuredUse = NOTHING_MEASURED
    minutes: tuple[MeasuredUse, ...] = ()
    """That are over, the oldest first."""
    memory_peak_mib: int = 0
    """Of the whole attempt, not of the window alone."""

    @property
    def is_full(self) -> bool:
        return len(self.minutes) == SLOTS

    @property
    def use(self) -> MeasuredUse:
        """Sum of the minutes that are over, with the peak of the attempt."""
        total = NOTHING_MEASURED
        for one in self.minutes:
            total = total.plus(one)
        return replace(total, memory_peak_mib=max(total.memory_peak_mib, self.memory_peak_mib))

    def emptied(self, now: float) -> UseWindow:
        """The same attempt, looked at from now on."""
        return replace(self, opened_at=now, looked_at=now, open=NOTHING_MEASURED, minutes=())


def looked(window: UseWindow | None, attempt: int, use: MeasuredUse, now: float) -> UseWindow:
    """The window with one more look. Another attempt, and a long time without a look, begin anew."""
    if window is None or window.attempt != attempt:
        window = UseWindow(attempt=attempt, opened_at=now, looked_at=now)
    elif now - window.looked_at > GAP_S:
        window = window.emptied(now)
    peak = max(window.memory_peak_mib, use.memory_peak_mib)
    if now - window.opened_at < SLOT_S:
        return replace(window, open=window.open.plus(use), looked_at=now, memory_peak_mib=peak)
    minutes = (*window.minutes, window.open)[-SLOTS:]
    return replace(window, opened_at=now, looked_at=now, open=use, minutes=minutes, memory_peak_mib=peak)
