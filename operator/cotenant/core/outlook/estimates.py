"""Estimated starts: quantiles over many plays, corrected by past errors.

`_PLAYS` futures are simulated one after the other, in small steps: the caller of `step` decides how much time that
takes, and the estimates are valid between two calls. A job draws the same quantiles of its run time in every round (its
own, spread evenly over the plays), so an estimate changes with the cluster and not with chance.

The median over the plays is published as it is. The tenth of eleven plays is below 17 % of further draws, so its
distance from the median is taken times `_SPREAD`. The result is corrected as in adaptive conformal inference (Gibbs and
Candès, NeurIPS 2021), because plays leave some things out and share one estimate of each run time. Each queue has a
factor on the wait until the 90th percentile. A start later than estimated moves it up, an earlier one down. The steps
are such that in the long run nine of ten jobs start by then, whatever the workload is.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil, exp, inf
from typing import Final
from zlib import crc32

from cotenant.core.model.objects import Job, JobKey
from cotenant.core.outlook.arrivals import PastArrivals
from cotenant.core.outlook.play import Play
from cotenant.core.outlook.remaining import RemainingTimes
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.scheduling.known import Known
from cotenant.core.snapshot.snapshot import Snapshot

_PLAYS: Final = 11
_GOLDEN: Final = 0.6180339887498949
_SPREAD: Final = 1.25
"""Of normal draws the tenth of eleven lies 1.1 σ above the mean, and nine of ten further ones below 1.4 σ."""
_STEP: Final = 0.05
"""How far one start moves the logarithm of a factor, at most."""
_LIMIT: Final = 3.0
"""A factor stays between exp(−this) and exp(this)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a job starts: the median (`p50`) and the 90th percentile (`p90`), in Unix seconds."""

    made_at: float
    p50: float
    p90: float
    position: int
    """Place in the order of starts; 1 is the next."""


@dataclass(frozen=True, slots=True)
class _Future:
    """One play, finished or not."""

    play: Play
    began: float
    waiting: Set[JobKey]
    """Jobs that waited when it began."""


class Outlook:
    """Estimates of all waiting jobs, kept up from snapshot to snapshot. Not thread-safe: one caller at a time."""

    def __init__(self, policy: Policy = DEFAULT) -> None:
        self._policy = policy
        self._snapshot: Snapshot | None = None
        self._remaining = RemainingTimes()
        self._current: _Future | None = None
        self._number = 0
        self._played: dict[int, _Future] = {}
        """Number of a play → the last one."""
        self._queue_of: dict[JobKey, str] = {}
        self._factors: dict[str, float] = {}
        """Queue → logarithm of the factor on waits until the 90th percentile."""
        self._rounds_left = 0
        self._arrivals = PastArrivals()
        self._before: Known | None = None
        """Memory of the last play, which the next one uses."""

    def observe(self, snapshot: Snapshot, ends: Mapping[JobKey, float]) -> None:
        """Plays that begin from now on begin with this snapshot. `ends`: as in `RemainingTimes`."""
        self._snapshot = snapshot
        self._remaining = RemainingTimes(snapshot.runtimes, ends)
        self._queue_of = {job.key: job.queue for job in snapshot.jobs if job.placement is None}
        self._rounds_left = _PLAYS
        self._arrivals.observe(snapshot)

    def step(self) -> bool:
        """Go on by one turn or ending; False once every play was played since the last snapshot."""
        if self._current is None:
            if self._snapshot is None or not self._rounds_left or not self._queue_of:
                return False
            self._begin(self._snapshot)
        if self._current is not None and not self._current.play.step():
            self._end(self._current)
        return True

    def estimates(self) -> dict[JobKey, Estimate]:
        """Estimates of waiting jobs that start in more than half of the plays in which they waited.

        `p90` is infinite if a job starts in fewer than nine of ten plays, or if only the unfinished play knows the job.
        """
        made_at = max((future.began for future in self._played.values()), default=0.0)
        found = [(*self._quantiles(key), key) for key in self._queue_of]
        order = sorted((p50, key, p90, began) for p50, p90, began, key in found if p50 < inf)
        return {
            key: self._corrected(key, max(made_at, began), p50, p90, position)
            for position, (p50, key, p90, began) in enumerate(order, start=1)
        }

    def learn(self, queue: str, estimate: Estimate, started_at: float) -> None:
        """A job of this queue, for which this was estimated, has started."""
        if estimate.p90 < inf:  # else there was no estimate of this percentile
            moved = self._factors.get(queue, 0.0) + _STEP * (0.9 if started_at > estimate.p90 else -0.1)
            self._factors[queue] = min(_LIMIT, max(-_LIMIT, moved))

    def _begin(self, snapshot: Snapshot) -> None:
        remaining, number = self._remaining, self._number

        def draw(job: Job, ran_s: float) -> float | None:
            return remaining.draw(job, ran_s, snapshot.now, chance_of(job, number))

        def draw_stretch(stretch: int) -> float:
            return int.from_bytes(blake2b(f"{number} {stretch}".encode(), digest_size=4).digest()) / 2**32

        arrivals = self._arrivals.again(snapshot.now, draw_stretch)
        play = Play(snapshot, self._policy, draw, arrivals, self._before)
        self._current, self._before = _Future(play, snapshot.now, self._queue_of.keys()), None

    def _end(self, future: _Future) -> None:
        self._played[self._number] = future
        self._number = (self._number + 1) % _PLAYS
        self._rounds_left -= 1
        self._current, self._before = None, future.play.leave()

    def _quantiles(self, key: JobKey) -> tuple[float, float, float]:
        """(p50, p90, when the unfinished play began if it is the only one that knows the job, else 0).

        Nearest rank over the plays in which the job waited; a play in which it does not start counts as never.
        """
        starts = sorted(one.play.starts.get(key, inf) for one in self._played.values() if key in one.waiting)
        if starts:
            p50, p90 = (starts[ceil(quantile * len(starts)) - 1] for quantile in (0.5, 0.9))
            return p50, p90, 0.0
        current = self._current
        return (inf, inf, 0.0) if current is None else (current.play.starts.get(key, inf), inf, current.began)

    def _corrected(self, key: JobKey, made_at: float, p50: float, p90: float, position: int) -> Estimate:
        factor, widened = exp(self._factors.get(self._queue_of[key], 0.0)), p50 + _SPREAD * (p90 - p50)
        p50, late = max(made_at, p50), made_at + factor * (widened - made_at)
        return Estimate(made_at, p50, max(p50, late), position)


def chance_of(job: Job, number: int) -> float:
    """Number between 0 and 1: the same for a job and a play, and spread evenly over the plays of a job."""
    return (crc32(job.uid.encode()) / 2**32 + number * _GOLDEN) % 1.0
