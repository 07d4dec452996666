"""How long jobs ran that have ended, by group: a bounded memory, kept up run by run.

The last `_RUNS` runs of the last `_GROUPS` groups are kept. What was learned long ago of a template that still comes is
forgotten as it changes, and whoever invents names makes the memory no larger.
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
        self._runs: dict[str, deque[int]] = {}
        """Group → run times, oldest first; the group that was heard of last stands last."""
        self._sorted: dict[str, RunSeconds] = {}
        self._view: LearnedRuntimes | None = None

    def record(self, job: Job, ran_s: float) -> None:
        """A job is over after so many seconds of work, over all its attempts."""
        seconds = int(ran_s)
        if seconds <= 0:
            return
        self._view = None
        for group in groups_of(job):
            self._append(group, seconds)
        if job.expected_runtime_s:
            for group in declarers_of(job):
                self._append(group, seconds * PER_MILLE // job.expected_runtime_s)
        while len(self._runs) > _GROUPS:
            forgotten = next(iter(self._runs))
            del self._runs[forgotten]
            self._sorted.pop(forgotten, None)

    def _append(self, group: str, value: int) -> None:
        runs = self._runs.pop(group, None) or deque(maxlen=_RUNS)
        runs.append(value)
        self._runs[group] = runs
        self._sorted.pop(group, None)

    def learned(self) -> LearnedRuntimes:
        """What is known now, as a value that later runs do not change."""
        if self._view is None:
            for group in self._runs.keys() - self._sorted.keys():
                self._sorted[group] = tuple(sorted(self._runs[group]))
            self._view = LearnedRuntimes(MappingProxyType(dict(self._sorted)))
        return self._view
