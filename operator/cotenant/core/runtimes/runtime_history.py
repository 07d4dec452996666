"""How long jobs ran that have ended, by group: a bounded memory, kept up run by run.

The last `_RUNS` runs of each group are kept, so old behaviour of a template is forgotten. If there are more than
`_GROUPS` groups, the queue that has most of them drops its least recently used one. So a queue with at most its fair
part, `_GROUPS` divided by the number of queues, loses nothing, whatever names are invented in another queue.
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType

from cotenant.core.model.objects import Job
from cotenant.core.runtimes.learned import PER_MILLE, LearnedRuntimes, RunSeconds
from cotenant.core.runtimes.templates import declarers_of, groups_of

_RUNS = 128
_GROUPS = 4_096


class RuntimeHistory:
    def __init__(self) -> None:
        self._runs: dict[str, dict[str, deque[int]]] = {}
        """Queue → group → run times, oldest first; the most recently used group stands last."""
        self._groups = 0
        self._sorted: dict[str, RunSeconds] = {}
        self._view: LearnedRuntimes | None = None

    def record(self, job: Job, ran_s: float) -> None:
        """A job is over after so many seconds of work, over all its attempts."""
        seconds = int(ran_s)
        if seconds <= 0:
            return
        self._view = None
        for group in groups_of(job):
            self._append(job.queue, group, seconds)
        if job.expected_runtime_s:
            for group in declarers_of(job):
                self._append(job.queue, group, seconds * PER_MILLE // job.expected_runtime_s)
        while self._groups > _GROUPS:
            self._forget_one()

    def _append(self, queue: str, group: str, value: int) -> None:
        of_queue = self._runs.setdefault(queue, {})
        runs = of_queue.pop(group, None)
        if runs is None:
            runs = deque(maxlen=_RUNS)
            self._groups += 1
        runs.append(value)
        of_queue[group] = runs
        self._sorted.pop(group, None)

    def _forget_one(self) -> None:
        queue = max(self._runs, key=lambda name: (len(self._runs[name]), name))
        forgotten = next(iter(self._runs[queue]))
        del self._runs[queue][forgotten]
        self._sorted.pop(forgotten, None)
        self._groups -= 1
        if not self._runs[queue]:
            del self._runs[queue]

    def learned(self) -> LearnedRuntimes:
        """What is known now, as a value that later runs do not change."""
        if self._view is None:
            for runs in self._runs.values():
                for group in runs.keys() - self._sorted.keys():
                    self._sorted[group] = tuple(sorted(runs[group]))
            self._view = LearnedRuntimes(MappingProxyType(dict(self._sorted)))
        return self._view
