"""Jobs that may come: the recent arrivals are assumed to repeat, from another point of that past in each play.

Historical simulation, as a block bootstrap without dice: the only assumption is that the near future is like the near
past. Without future arrivals every estimate would be too early, because jobs that come later may start first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

from cotenant.core.model.objects import Job
from cotenant.core.snapshot.snapshot import Snapshot

_KEPT = 512
_ENOUGH = 8
"""With fewer known arrivals none are assumed."""


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

    def again(self, now: float, part: float) -> Iterator[Job]:
        """The past arrivals again from `now` on, without end; `part` (0 to 1): where in the past to begin."""
        jobs = sorted(self._jobs.values(), key=lambda job: (job.submitted_at, job.key))
        span = now - jobs[0].submitted_at if jobs else 0.0
        if len(jobs) < _ENOUGH or span <= 0:
            return
        first = int(part * len(jobs))
        number, begin = 0, now - (jobs[first].submitted_at - jobs[0].submitted_at)
        while True:
            for job in jobs[first:]:
                number += 1
                at = begin + job.submitted_at - jobs[0].submitted_at
                yield replace(job, key=f"{job.key}#{number}", uid=f"{job.uid}#{number}", submitted_at=at)
            begin, first = begin + span, 0
