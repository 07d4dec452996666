"""How a running job used its GPUs in the last minutes: sums by the minute, a bounded number of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cotenant.decision_log.measured_use import NOTHING_MEASURED, MeasuredUse

SLOT_S: Final = 60.0
SLOTS: Final = 10
GAP_S: Final = 3 * SLOT_S
"""After this long without a look, the window starts again, because nothing is known about the time between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseWindow:
    """Looks at the GPUs of one attempt, from `opened_at` of its first minute on."""

    attempt: int
    opened_at: float
    """Unix seconds at which the current minute began."""
    looked_at: float
    open: MeasuredUse = NOTHING_MEASURED
    minutes: tuple[MeasuredUse, ...] = ()
    """Finished minutes, oldest first."""
    memory_peak_mib: int = 0
    """Peak of the whole attempt."""

    @property
    def is_full(self) -> bool:
        return len(self.minutes) == SLOTS

    @property
    def use(self) -> MeasuredUse:
        """Sum of the finished minutes, with the peak of the attempt."""
        total = NOTHING_MEASURED
        for one in self.minutes:
            total = total.plus(one)
        return replace(total, memory_peak_mib=max(total.memory_peak_mib, self.memory_peak_mib))

    def emptied(self, now: float) -> UseWindow:
        """The same attempt, observed from now on."""
        return replace(self, opened_at=now, looked_at=now, open=NOTHING_MEASURED, minutes=())


def looked(window: UseWindow | None, attempt: int, use: MeasuredUse, now: float) -> UseWindow:
    """The window with one more look. It starts again for another attempt, and after a long time without a look."""
    if window is None or window.attempt != attempt:
        window = UseWindow(attempt=attempt, opened_at=now, looked_at=now)
    elif now - window.looked_at > GAP_S:
        window = window.emptied(now)
    peak = max(window.memory_peak_mib, use.memory_peak_mib)
    if now - window.opened_at < SLOT_S:
        return replace(window, open=window.open.plus(use), looked_at=now, memory_peak_mib=peak)
    minutes = (*window.minutes, window.open)[-SLOTS:]
    return replace(window, opened_at=now, looked_at=now, open=use, minutes=minutes, memory_peak_mib=peak)
