"""One job on its way through a simulation: what it has trained, what it held and when, and what it lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Verdict
from cotenant.simulator.scenario import Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    start_s: float = 10.0
    """From admission to the first step."""
    checkpoint_s: float = 600.0
    """Between two checkpoints: what an eviction loses at most."""


@dataclass(frozen=True, slots=True)
class Held:
    """Part of a GPU or several of them, held for a while."""

    start: float
    end: float
    milli: int


@dataclass(slots=True)
class JobRun:
    arrival: Arrival
    trained_s: float = 0.0
    """Work that is done and saved, in seconds at full width."""
    lost_s: float = 0.0
    """Work that was done again after an eviction."""
    ran_s: float = 0.0
    """How long its workers ran in attempts that are over."""
    placed: Job | None = None
    """The job with the placement on which it runs."""
    admitted_at: float | None = None
    """Of the present attempt, or of its last resize."""
    training_since: float | None = None
    """Since when the present attempt trains."""
    placements: int = 0
    """Counts placements: an end that was foreseen for an earlier one is void."""
    first_start: float | None = None
    end: float | None = None
    evictions: int = 0
    held: list[Held] = field(default_factory=list)
    verdict: Verdict | None = None
    """The last reason for which it waited."""

    @property
    def waits(self) -> bool:
        return self.end is None and self.admitted_at is None

    @property
    def held_milli_s(self) -> float:
        return sum(one.milli * (one.end - one.start) for one in self.held)

    def place(self, job: Job, now: float, costs: Costs) -> float:
        """Count a new placement; returns when the job would end on it."""
        self.placements += 1
        self.placed, self.admitted_at = job, now
        self.training_since = now + costs.start_s
        if self.first_start is None:
            self.first_start = now
        return self.training_since + max(0.0, self.arrival.train_s - self.trained_s) / speed(job)

    def saved_at(self, now: float, costs: Costs) -> float | None:
        """When the present attempt last saved; None: it has not yet."""
        if self.training_since is None or now < self.training_since + costs.checkpoint_s:
            return None
        return now - (now - self.training_since) % costs.checkpoint_s

    def credit(self, now: float) -> None:
        """Credit the running attempt up to now, and close it."""
        job = self.placed
        if self.admitted_at is None or self.training_since is None or job is None or job.placement is None:
            return
        trained = max(0.0, now - self.training_since) * speed(job)
        self.trained_s = min(self.arrival.train_s, self.trained_s + trained)
        milli = sum(gpu.compute_milli for node in job.placement.nodes for rank in node.ranks for gpu in rank.gpus)
        if now > self.admitted_at:
            self.held.append(Held(self.admitted_at, now, milli))
        self.ran_s += now - self.admitted_at
        self.placed = self.admitted_at = self.training_since = None

    def evict(self, now: float, costs: Costs) -> None:
        """Close the attempt; what it did since its last checkpoint is lost."""
        before = self.trained_s
        self.credit(now)
        lost = (self.trained_s - before) % costs.checkpoint_s
        self.trained_s -= lost
        self.lost_s += lost
        self.evictions += 1
        self.placements += 1


def speed(job: Job) -> float:
    """Speed relative to the job's full width."""
    return 1.0 if job.placement is None else job.placement.workers / max(1, job.workers_max)
