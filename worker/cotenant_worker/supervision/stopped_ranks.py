"""Ranks of this pod, or its parameter server, that were stopped (SIGSTOP) and are not continued.

In a collective, the other ranks notice that one is missing (`hangs`). A rank that is stopped after its last collective,
or that never meets another, would keep its GPUs without end. The kernel shows that it cannot move, so a slow rank does
not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cotenant_worker.host.procfs import is_stopped
from cotenant_worker.supervision.messages import RankStopped


@dataclass(slots=True)
class StoppedRanks:
    ranks: Callable[[], Iterable[tuple[int, int, int]]]
    """(rank, generation, pid) of the running ranks."""
    emit: Callable[[RankStopped], None]
    timeout_s: float
    _stopped_since: dict[tuple[int, int, int], float] = field(default_factory=dict)

    def check(self, now: float) -> None:
        """Report every rank that has been stopped for `timeout_s`, once. `now` is on any monotonic clock."""
        stopped = sorted(run for run in self.ranks() if is_stopped(run[2]))
        self._stopped_since = {run: self._stopped_since.get(run, now) for run in stopped}
        for run, since in self._stopped_since.items():
            if now - since >= self.timeout_s:
                rank, generation, _ = run
                self.emit(RankStopped(rank, generation, now - since))
                self._stopped_since[run] = float("inf")  # reported
