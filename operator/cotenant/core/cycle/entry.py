"""One pending job on its way through a cycle: its request, its place, its outcome and the reason for which it waits.

Kueue keeps an `entry` per workload in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cotenant.core.allocation.request import Request
from cotenant.core.model.objects import Job, Placement
from cotenant.core.model.plan import Refusal


class EntryOutcome(Enum):
    UNDECIDED = "Undecided"
    INADMISSIBLE = "Inadmissible"
    """Cannot start as things are, however long it waits."""
    ADMITTED = "Admitted"
    NOMINATED = "Nominated"
    """Its place is becoming free, and is held for it."""
    WAITING = "Waiting"


@dataclass(slots=True, eq=False)
class Entry:
    job: Job
    request: Request | None = None
    """Shared by all jobs that ask for the same."""
    outcome: EntryOutcome = EntryOutcome.UNDECIDED
    placement: Placement | None = None
    """Where it starts, now or after evictions."""
    backfilled_until: float | None = None
    """When it is to have ended, if it starts on GPUs that are reserved for another job."""
    reason: Refusal | None = None
    """Why it waits; equal requests share one reason."""

    def reject(self, reason: Refusal) -> None:
        self.outcome, self.reason = EntryOutcome.INADMISSIBLE, reason

    def admit(self, placement: Placement, backfilled_until: float | None = None) -> None:
        self.outcome, self.placement, self.backfilled_until = EntryOutcome.ADMITTED, placement, backfilled_until

    def nominate(self, placement: Placement, reason: Refusal) -> None:
        self.outcome, self.placement, self.reason = EntryOutcome.NOMINATED, placement, reason

    def wait(self, reason: Refusal) -> None:
        self.outcome, self.reason = EntryOutcome.WAITING, reason

    @property
    def admitted_to(self) -> Placement | None:
        """Placement of an admitted job, else None."""
        return self.placement if self.outcome is EntryOutcome.ADMITTED else None

    @property
    def nominated_to(self) -> Placement | None:
        """Placement of a nominated job, else None."""
        return self.placement if self.outcome is EntryOutcome.NOMINATED else None
