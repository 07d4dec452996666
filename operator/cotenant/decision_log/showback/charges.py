"""A line of the ledger: what a job held in a span of time, and for what.

Four parts add up to what was held. Lost to preemption and lost to faults come from the job's status, to the
millisecond. Of the rest, idle is the part of the samples in which its GPUs were idle; what was not measured counts as
used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

PARTS: Final = ("used", "idle", "lost_to_preemption", "lost_to_faults")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCharge:
    """Amounts in milli-GPU × seconds, times in Unix seconds."""

    namespace: str
    name: str
    uid: str
    queue: str
    user: str = ""
    gpu_class: str = ""
    """Class; empty if unknown."""
    since: int
    until: int
    used: int = 0
    idle: int = 0
    lost_to_preemption: int = 0
    lost_to_faults: int = 0

    @property
    def held(self) -> int:
        """Sum of the four parts."""
        return self.used + self.idle + self.lost_to_preemption + self.lost_to_faults

    def within(self, since: int, until: int) -> UsageCharge | None:
        """The part of it in [since, until), evenly over its time; None if there is none.

        Parts of a divided span add up exactly to the whole. A span without a length belongs to its beginning.
        """
        begun, ended = max(since, self.since), min(until, self.until)
        if self.since == self.until:
            return self if since <= self.since < until else None
        if begun >= ended:
            return None
        length = self.until - self.since

        def of(amount: int) -> int:
            return amount * (ended - self.since) // length - amount * (begun - self.since) // length

        return replace(
            self,
            since=begun,
            until=ended,
            used=of(self.used),
            idle=of(self.idle),
            lost_to_preemption=of(self.lost_to_preemption),
            lost_to_faults=of(self.lost_to_faults),
        )


def split(held: int, *, preempted: int, faulted: int, idle_samples: int, samples: int) -> dict[str, int]:
    """The four parts of an amount. `samples` is the number of samples that showed whether the GPU was idle."""
    preempted = min(preempted, held)
    faulted = min(faulted, held - preempted)
    kept = held - preempted - faulted
    idle = kept * min(idle_samples, samples) // samples if samples else 0
    return {
        "used": kept - idle,
        "idle": idle,
        "lost_to_preemption": preempted,
        "lost_to_faults": faulted,
    }
