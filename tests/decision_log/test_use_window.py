"""The last minutes of a job's use: bounded, whole, and of one attempt."""

from __future__ import annotations

from cotenant.decision_log.measured_use import MeasuredUse
from cotenant.decision_log.use_window import GAP_S, SLOT_S, SLOTS, UseWindow, looked


def use(busy: int = 50, peak: int = 100) -> MeasuredUse:
    return MeasuredUse(samples=1, busy_samples=1, busy_percent_sum=busy, memory_peak_mib=peak, held_mib=1000)


def after(looks: int, *, every_s: float = 15.0, window: UseWindow | None = None, since: float = 0.0) -> UseWindow:
    for number in range(looks):
        window = looked(window, 1, use(), since + number * every_s)
    assert window is not None
    return window


def test_looks_of_a_minute_are_one_sum_and_the_minute_that_goes_on_does_not_count() -> None:
    window = after(5)
    assert [one.samples for one in window.minutes] == [4]
    assert (window.open.samples, window.use.samples, window.is_full) == (1, 4, False)


def test_a_full_window_keeps_the_newest_minutes() -> None:
    window = after(4 * (SLOTS + 5) + 1)
    assert (window.is_full, len(window.minutes), window.use.samples) == (True, SLOTS, 4 * SLOTS)


def test_the_peak_of_memory_is_that_of_the_attempt() -> None:
    window = after(4 * SLOTS * 2, window=looked(None, 1, use(peak=900), 0.0), since=15.0)
    assert window.use.memory_peak_mib == 900


def test_another_attempt_begins_anew_and_so_does_a_long_silence() -> None:
    window = after(4 * SLOTS + 1)
    other = looked(window, 2, use(), 1e6)
    assert (other.attempt, other.minutes, other.memory_peak_mib) == (2, (), 100)
    late = looked(window, 1, use(), window.looked_at + GAP_S + 1)
    assert (late.minutes, late.open.samples) == ((), 1)
    soon = looked(window, 1, use(), window.looked_at + SLOT_S)
    assert len(soon.minutes) == SLOTS


def test_an_emptied_window_keeps_the_peak() -> None:
    window = after(4 * SLOTS + 1).emptied(700.0)
    assert (window.minutes, window.memory_peak_mib, window.opened_at) == ((), 100, 700.0)
