"""GPU time of each queue's jobs, added up once for all budgets above them.

Jobs that ended before the last reading and have not changed since are skipped: most jobs are such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cotenant.decision_log.showback.meters import Meter

UNKNOWN_CLASS = ""


class HeldByQueue:
    """Sums of one reading of all meters, in milli-GPU × seconds by class."""

    def __init__(self, meters: Collection[Meter], read: Mapping[str, Meter], read_at: int) -> None:
        """`read` maps a job's uid to its meter as of `read_at`, in Unix seconds; 0 if there was no reading yet."""
        self._read, self._read_at = read, read_at
        self._of: dict[str, list[Meter]] = {}
        for meter in meters:
            self._of.setdefault(meter.queue, []).append(meter)
        self._known: dict[tuple[str, int, int, bool], Counter[str]] = {}

    def milli(self, queue: str) -> int:
        """Milli-GPU that its jobs hold now."""
        return sum(meter.held_milli for meter in self._of.get(queue, ()))

    def milli_at(self, queue: str, at: int) -> int:
        """Milli-GPU that its jobs held at that moment, as far as is known."""
        return sum(meter.held_at(at) for meter in self._of.get(queue, ()))

    def between(self, queue: str, since: int, until: int, *, first: bool) -> Counter[str]:
        """GPU time of its jobs between two moments. With `first`, corrections of the reading before are added."""
        key = (queue, since, until, first)
        if key not in self._known:
            amounts: Counter[str] = Counter()
            for meter in self._of.get(queue, ()):
                if not self._is_settled(meter, since):
                    amounts.update(self._held(meter, since, until, first=first))
            self._known[key] = amounts
        return self._known[key]

    def _is_settled(self, meter: Meter, since: int) -> bool:
        """True if the job held nothing since then, and its meter has not changed."""
        if meter.current is not None or (meter.last is not None and (meter.last.ended or 0) > since):
            return False
        if not self._read_at:
            return True
        return self._read.get(meter.uid) == meter and (meter.last is None or (meter.last.ended or 0) <= self._read_at)

    def _held(self, meter: Meter, since: int, until: int, *, first: bool) -> Counter[str]:
        amounts = _by_class(meter, since, until)
        read = self._read.get(meter.uid)
        if first and self._read_at:  # a job that this leader has not seen before had held nothing then
            known = read.until(self._read_at) if read else 0
            rest = meter.until(until) - known - sum(amounts.values())
            if rest:
                name = next((one.gpu_class for one in meter.spans), UNKNOWN_CLASS)
                amounts[name] += rest
        return amounts


@dataclass(frozen=True, slots=True)
class HeldBelow:
    """What counts to one budget."""

    held: HeldByQueue
    queues: Collection[str]
    """The queue and those below it."""
    gone: Collection[Meter]
    """Jobs whose documents were deleted since the last reading. They are charged until now, and never again."""

    def between(self, since: int, until: int, *, first: bool) -> Counter[str]:
        amounts: Counter[str] = Counter()
        for name in self.queues:
            amounts.update(self.held.between(name, since, until, first=first))
        for one in self.gone:
            amounts.update(_by_class(one, since, until))
        return amounts

    def milli(self) -> int:
        return sum(self.held.milli(name) for name in self.queues)

    def milli_at(self, at: int) -> int:
        return sum(self.held.milli_at(name, at) for name in self.queues)


def _by_class(meter: Meter, since: int, until: int) -> Counter[str]:
    amounts: Counter[str] = Counter()
    for span in meter.spans:
        amounts[span.gpu_class] += span.until(until) - span.until(since)
    return amounts
