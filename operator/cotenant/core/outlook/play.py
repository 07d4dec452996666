"""One simulated future: from a snapshot on, jobs end when their drawn run times are over, and waiting ones take turns.

The turns are those of production (`scheduling`), on a cluster that is updated from ending to ending (`played_cluster`).
A play goes on in small steps, so that it can be interrupted anywhere. It places by best fit: learning the workload mix
for each play would cost more than the play.

The caller supplies the jobs that come meanwhile; bookings begin and end at their times. Not played: elastic growth, the
bounds of waiting jobs of a queue, moves, and work that evictions lose. `estimates` corrects for them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from math import inf
from typing import Final

from cotenant.core.model.objects import Job, JobKey
from cotenant.core.outlook.played_bookings import BookingCalendar
from cotenant.core.outlook.played_cluster import Draw, PlayedCluster
from cotenant.core.outlook.turns import Turns
from cotenant.core.placement import BestFit
from cotenant.core.policy import Policy
from cotenant.core.scheduling.known import Known, open_cycle
from cotenant.core.snapshot.snapshot import Snapshot

_EVENTS: Final = 200
_EVENTS_PER_JOB: Final = 4
"""A play is over after so many events, even if some job has not started: it may never start."""
_ROUNDS: Final = 100
"""Most cycles at one moment."""


class Play:
    """A future on its way."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        draw: Draw,
        arrivals: Iterator[Job],
        before: Known | None = None,
    ) -> None:
        """`arrivals`: jobs that are assumed to come, in the order of their submission, possibly without end. `before`:
        memory of a play that is over."""
        self.starts: dict[JobKey, float] = {}
        """Job of the snapshot → when it starts; filled as the play goes on."""
        self._known = before
        self._course = self._run(snapshot, replace(policy, placer=BestFit()), draw, arrivals)

    def step(self) -> bool:
        """Go on by one turn, arrival or ending; False when the play is over."""
        return next(self._course, False)

    def leave(self) -> Known | None:
        """The memory for the next play; this one is over."""
        known, self._known = self._known, None
        return known

    def _run(self, snapshot: Snapshot, policy: Policy, draw: Draw, arrivals: Iterator[Job]) -> Iterator[bool]:
        cycle, requests = open_cycle(snapshot, policy, self._known)
        self._known = Known.of(cycle, requests)
        cluster = PlayedCluster(cycle, draw, requests.resolve)
        self.starts = cluster.starts
        yield True
        for key, job in cycle.running.by_key.items():
            cluster.hold(job, cycle.running.allocations[key], job.admitted_at or snapshot.now)
            yield True
        waiting = {entry.job.key: entry.job for entry in cycle.entries}
        for job in waiting.values():
            if cluster.wait(job) is not None:
                cluster.unstarted.add(job.key)
            yield True
        for key, placement in snapshot.nominations:
            if key in waiting:
                cluster.start_nominated(waiting[key], placement)
        calendar = BookingCalendar(snapshot)
        turns = yield from _rounds(cluster)
        coming = next(arrivals, None)
        for _ in range(_EVENTS + _EVENTS_PER_JOB * len(snapshot.jobs)):
            ending, change = cluster.next_ending or inf, calendar.next_change or inf
            if min(ending, change) == inf or not (cluster.unstarted or (change < inf and cluster.refused)):
                return
            cluster.evicted.clear()
            if change <= ending and (coming is None or coming.submitted_at >= change):
                turns.close()
                cluster.go_to(change)
                cluster.change_queues(*calendar.turn())
                turns = yield from _rounds(cluster)
            elif coming is None or coming.submitted_at >= ending:
                turns.close()
                cluster.end_next()
                if cluster.next_ending != cluster.now:
                    turns = yield from _rounds(cluster)
            else:
                cluster.go_to(coming.submitted_at)
                request = cluster.wait(coming)
                if request is not None and not turns.of_one(coming, request):
                    turns.close()
                    turns = yield from _rounds(cluster)
                coming = next(arrivals, None)
            yield True


def _rounds(cluster: PlayedCluster) -> Generator[bool, None, Turns]:
    """Turns of all waiting jobs, repeated while jobs had to leave; returns the last turns."""
    for _ in range(_ROUNDS):
        turns = Turns(cluster)
        yield from turns.of_all()
        if not turns.evicted:
            break
        turns.close()
    return turns
