"""One cycle: what it reads, what is held, and what was decided so far. Decides nothing itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.cycle.accounts import Accounts
from cotenant.core.cycle.entry import Entry
from cotenant.core.cycle.eviction_rules import EvictionRules
from cotenant.core.cycle.outcome import CycleOutcome
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.cycle.search import PlacementResult
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Refusal
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.policy import Policy
from cotenant.core.queueing.service import ServiceOrder
from cotenant.core.quota.deleted_queues import with_deleted
from cotenant.core.quota.tree import QueueTree
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Cycle:
    snapshot: Snapshot
    policy: Policy
    inventory: Inventory
    tree: QueueTree
    running: RunningJobs
    entries: tuple[Entry, ...]
    """One per pending job."""
    moment: Moment
    accounts: Accounts
    service: ServiceOrder = field(init=False)
    rules: EvictionRules = field(init=False)
    outcome: CycleOutcome = field(default_factory=CycleOutcome)
    started: list[tuple[Job, Allocation]] = field(default_factory=list)
    """Jobs that were admitted, with what they hold."""
    nominated: list[tuple[Job, Allocation]] = field(default_factory=list)
    """Jobs that start or move when others have left, with what they will hold."""

    def __post_init__(self) -> None:
        service = ServiceOrder(self.tree, self.snapshot.runtimes, self.moment, self.policy.restart_cost_s)
        rules = EvictionRules(self.tree, self.policy, self.moment, frozenset(self.snapshot.evicted))
        object.__setattr__(self, "service", service)
        object.__setattr__(self, "rules", rules)

    @classmethod
    def open(
        cls, snapshot: Snapshot, policy: Policy, known: RunningJobs | None = None, fits: FitCache | None = None
    ) -> Cycle:
        """`known`: running jobs of an earlier cycle; what was worked out of them is used again for jobs that are the
        same. `fits`: the cache of an earlier cycle, which is over."""
        counted = snapshot.accounting or Accounting.of(
            snapshot.nodes, with_deleted(snapshot.queues, snapshot.jobs), snapshot.jobs
        )
        scorer = policy.placer.prepare(counted.ledger, snapshot.demand_history)
        running = known  # a copy of the jobs has a copy of their allocations, made with it
        if running is None or running.allocations is not counted.allocations or running.tree is not counted.tree:
            running = RunningJobs(counted.running, counted.allocations, counted.tree, before=known)
        return cls(
            snapshot=snapshot,
            policy=policy,
            inventory=counted.inventory,
            tree=counted.tree,
            running=running,
            entries=tuple(Entry(job) for job in counted.pending),
            moment=Moment(snapshot.now),
            accounts=Accounts(Occupancy(counted.ledger.copy(), counted.usage.copy(), scorer, kept=fits), running),
        )

    def admit(self, entry: Entry, result: PlacementResult, backfilled_until: float | None = None) -> None:
        self.accounts.allocate(result.allocation)
        self.started.append((entry.job, result.allocation))
        entry.admit(result.placement, backfilled_until)

    def nominate(self, entry: Entry, result: PlacementResult, reason: Refusal) -> None:
        self.accounts.nominate(result.allocation)
        self.nominated.append((entry.job, result.allocation))
        entry.nominate(result.placement, reason)

    def nominate_move(self, job: Job, result: PlacementResult) -> None:
        """Hold the new place of a job that leaves its old one."""
        self.accounts.nominate(result.allocation)
        self.nominated.append((job, result.allocation))
        self.outcome.moves[job.key] = result.placement

    def stays(self, job: Job) -> bool:
        """True if the running job is not leaving or being resized, and this cycle does neither."""
        return not job.evicting and job.resizing_from is None and not self.outcome.touches(job.key)
