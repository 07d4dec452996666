"""One simulated job: what it has trained, which GPUs it held when, and what it lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Verdict
from cotenant.simulator.scenario import Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    start_s: float = 10.0
    """Seconds from admission to the first step."""
    checkpoint_s: float = 600.0
    """Seconds between two checkpoints: an eviction loses at most this much work."""


@dataclass(frozen=True, slots=True)
class Held:
    """Parts of GPUs that were held for a while."""

    start: float
    end: float
    milli: int


@dataclass(slots=True)
class JobRun:
    arrival: Arrival
    trained_s: float = 0.0
    """Work that is done and saved, in seconds at full width."""
    lost_s: float = 0.0
    """Work that was repeated after an eviction, in seconds."""
    ran_s: float = 0.0
    """Seconds for which its workers ran in finished attempts."""
    placed: Job | None = None
    """The job with its present placement."""
    admitted_at: float | None = None
    """When the present attempt was admitted or last resized."""
    training_since: float | None = None
    """When the present attempt started to train."""
    placements: int = 0
    """Number of placements. An end that was computed for an earlier placement is void."""
    first_start: float | None = None
    end: float | None = None
    evictions: int = 0
    held: list[Held] = field(default_factory=list)
    verdict: Verdict | None = None
    """The last reason why it waited."""

    @property
    def waits(self) -> bool:
        return self.end is None and self.admitted_at is None

    @property
    def held_milli_s(self) -> float:
        return sum(one.milli * (one.end - one.start) for one in self.held)

    def place(self, job: Job, now: float, costs: Costs) -> float:
        """Count a new placement. Returns when the job would end on it."""
        self.placements += 1
        self.placed, self.admitted_at = job, now
        self.training_since = now + costs.start_s
        if self.first_start is None:
            self.first_start = now
        return self.training_since + max(0.0, self.arrival.train_s - self.trained_s) / speed(job)

    def saved_at(self, now: float, costs: Costs) -> float | None:
        """When the present attempt last saved; None if it has not."""
        if self.training_since is None or now < self.training_since + costs.checkpoint_s:
            return None
        return now - (now - self.training_since) % costs.checkpoint_s

    def credit(self, now: float) -> None:
        """Credit the work of the running attempt up to now, and close the attempt."""
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
        """Close the attempt. Its work since the last checkpoint is lost."""
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
