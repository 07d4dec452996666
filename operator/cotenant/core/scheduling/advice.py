"""What waiting jobs are told besides their reason: their latest start, and the smallest change that would start them.

A second function, of the state in which the turns of a cycle have left it. It decides nothing, and changes nothing
except in trials that are rolled back. Questions that only ask who starts do without it (`scheduler.place`).

The walk of one waiting job: `turns_taken` has its reason and the places that were reserved before its turn.
`smallest_change` tries the changes of `explain/spec_changes` on what is left, in their order. `Told` adds the first one
that starts the job to its verdict, with the latest start from `start_bounds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from cotenant.core.cycle.entry import Entry
from cotenant.core.explain.spec_changes import SpecChange
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Plan, StartBound, Verdict
from cotenant.core.scheduling.smallest_change import smallest_changes
from cotenant.core.scheduling.start_bounds import start_bounds
from cotenant.core.scheduling.turns_taken import TurnsTaken


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Latest starts and changes, by waiting job. A job for which there is none is left out."""

    bounds: Mapping[JobKey, StartBound] = field(default_factory=dict)
    changes: Mapping[JobKey, SpecChange] = field(default_factory=dict)

    def ends(self, entries: Iterable[Entry]) -> list[tuple[Job, float]]:
        """(job, instant) for each job that is advised to limit its run time so that it ends by that instant."""
        changes = ((one.job, self.changes.get(one.job.key)) for one in entries)
        return [(job, change.ends_by) for job, change in changes if change is not None and change.ends_by is not None]

    def added_to(self, plan: Plan) -> Plan:
        return replace(plan, verdicts={key: self._added_to(verdict) for key, verdict in plan.verdicts.items()})

    def _added_to(self, verdict: Verdict) -> Verdict:
        bound, change = self.bounds.get(verdict.job), self.changes.get(verdict.job)
        if bound is not None:
            starts_by = bound.at if bound.at < inf else None
            verdict = replace(verdict, starts_by=starts_by, starts_by_basis=bound.basis)
        return verdict if change is None else change.added_to(verdict)


def tell(turns: TurnsTaken) -> Told:
    bounds, current = start_bounds(turns.cycle, turns.admission, turns.waiting), turns.cycle.accounts.current
    with current.trial():
        # A reserved place blocks only jobs that come after it: `ChangeSearch` takes it again for those.
        for collection in turns.admission.collections.values():
            current.release(collection.reservation.allocation)
        for place in turns.admission.booked.places:
            current.release(place.allocation)
        return Told(bounds, smallest_changes(turns))
