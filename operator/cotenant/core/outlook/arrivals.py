"""Jobs that may come: stretches of the recent arrivals, drawn anew in each play.

Historical simulation by a block bootstrap: the only assumption is that the near future is like the near past. Jobs that
came together come together again. Without future arrivals every estimate would be too early, because jobs that come
later may start first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from cotenant.core.model.objects import Job
from cotenant.core.snapshot.snapshot import Snapshot

_KEPT = 512
_STRETCH = 8
"""Arrivals in a stretch. With fewer known arrivals none are assumed."""


class PastArrivals:
    """The last jobs that were submitted, each as it was when it came."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def observe(self, snapshot: Snapshot) -> None:
        """Note the jobs that were not seen before."""
        fresh = [job for job in snapshot.jobs if job.uid not in self._jobs]
        for job in sorted(fresh, key=lambda job: (job.submitted_at, job.key))[-_KEPT:]:
            bare = replace(job, placement=None, admitted_at=None, backfilled_until=None, resizing_from=None)
            self._jobs[job.uid] = replace(bare, evicting=False, ran_s=0)
        while len(self._jobs) > _KEPT:
            self._jobs.popitem(last=False)

    def again(self, now: float, draw: Callable[[int], float]) -> Iterator[Job]:
        """Stretches of the past arrivals again from `now` on, without end.

        `draw`: number of a stretch → where in the past it begins (from 0 to below 1).
        """
        jobs = sorted(self._jobs.values(), key=lambda job: (job.submitted_at, job.key))
        if len(jobs) < _STRETCH or jobs[0].submitted_at >= now:
            return
        times = [*(job.submitted_at for job in jobs), now]
        at = now
        for stretch in count():
            first = int(draw(stretch) * len(jobs))
            for number in range(first, first + _STRETCH):
                job, since = jobs[number % len(jobs)], times[number % len(jobs)]
                yield replace(job, key=f"{job.key}#{stretch}", uid=f"{job.uid}#{stretch}", submitted_at=at)
                at += max(0.0, times[number % len(jobs) + 1] - since)  # another clock may be ahead of ours
