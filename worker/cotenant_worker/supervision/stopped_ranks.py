"""Ranks of this pod, or its parameter server, that were stopped (SIGSTOP) and are not continued.

In a collective, the other ranks notice that one is missing (`hangs`). A rank that is stopped after its last collective,
or that never meets another, would keep its GPUs without end. The kernel shows that it cannot move, so a slow rank does
not count.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cotenant_worker.host.procfs import is_stopped
from cotenant_worker.supervision.messages import RankStopped

_CHECK_INTERVAL_S = 2.0


@dataclass(slots=True)
class StoppedRanks:
    ranks: Callable[[], Iterable[tuple[int, int, int]]]
    """(rank, generation, pid) of the running ranks."""
    emit: Callable[[RankStopped], None]
    timeout_s: float
    _stopped_since: dict[tuple[int, int, int], float] = field(default_factory=dict)

    async def watch(self) -> None:
        """Report every rank that has been stopped for `timeout_s`, once."""
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            for rank, generation, for_s in self.check(time.monotonic()):
                self.emit(RankStopped(rank, generation, for_s))

    def check(self, now: float) -> list[tuple[int, int, float]]:
        """(rank, generation, seconds) of those that reach `timeout_s` now."""
        stopped = {run for run in self.ranks() if is_stopped(run[2])}
        self._stopped_since = {run: self._stopped_since.get(run, now) for run in stopped}
        over = [run for run, since in self._stopped_since.items() if now - since >= self.timeout_s]
        found = [(rank, generation, now - self._stopped_since[rank, generation, pid]) for rank, generation, pid in over]
        for run in over:
            self._stopped_since[run] = float("inf")  # reported
        return sorted(found)
