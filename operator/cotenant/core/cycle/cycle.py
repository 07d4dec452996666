"""The workbench of one cycle: the books now, the books once those who leave have left, and what was decided so far.

`now` counts everything that is held; `later` is the same world without the jobs that are being evicted, and exists
only if there are any. A job that fits now is admitted. A job that fits only later is *promised* its place: it is held
in both books, so nobody else gets what its victims give back. Made by `schedule`; used by every step of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.eviction_candidate import CandidateList
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.placements import without_ranks
from cotenant.core.allocation.request import Request, RequestKey
from cotenant.core.cycle.search import PlacementResult, Reservation, Search
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Job, JobKey, Placement
from cotenant.core.model.plan import Admit, Evict, Plan, Refusal, Resize, Verdict
from cotenant.core.placement import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.policy import Policy
from cotenant.core.queueing.fair_share import DominantShares, past_shares
from cotenant.core.quota.tree import QueueTree
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import Snapshot


@dataclass(slots=True, eq=False)
class Cycle:
    snapshot: Snapshot
    policy: Policy
    inventory: Inventory
    tree: QueueTree
    search: Search
    shares: DominantShares
    current: Occupancy
    running: Mapping[JobKey, Job]
    """Jobs that hold a placement."""
    pending: Sequence[Job]
    leaving: list[Job]
    """Jobs whose eviction or resize is under way."""
    allocations: Mapping[JobKey, Allocation]
    requests: dict[RequestKey, Request | Refusal] = field(default_factory=dict)
    asked: dict[JobKey, Request] = field(default_factory=dict)
    """Pending jobs that could ever start."""
    refused: dict[Request, Refusal] = field(default_factory=dict)
    waiting: list[Job] = field(default_factory=list)
    """Jobs whose request was refused, in the order of the line."""
    admitted: dict[JobKey, Admit] = field(default_factory=dict)
    evicted: dict[JobKey, Evict] = field(default_factory=dict)
    resized: dict[JobKey, Resize] = field(default_factory=dict)
    verdicts: dict[JobKey, Verdict] = field(default_factory=dict)
    nominations: dict[JobKey, Placement] = field(default_factory=dict)
    shrunk: dict[JobKey, frozenset[int]] = field(default_factory=dict)
    """Elastic job → ranks that this cycle asked to leave."""
    covered: dict[int, frozenset[tuple[JobKey, bool]]] = field(default_factory=dict)
    candidates: dict[tuple[object, ...], CandidateList] = field(default_factory=dict)
    reservations: dict[str, Reservation | None] = field(default_factory=dict)
    """GPU class → the place that is kept for the first job that waits there, if its start could be told."""
    backfilled: set[tuple[Request, frozenset[JobKey]]] = field(default_factory=set)
    """Requests that found no place although the reservations of these jobs were open to them."""
    started: list[tuple[Job, Allocation]] = field(default_factory=list)
    """Jobs that this cycle admitted, with what they hold."""
    entitled_waits: bool = False
    """A job inside its guarantee found no place in this cycle."""
    _after_evictions: Occupancy | None = None
    _by_queue: dict[int, list[Job]] | None = None
    _elastic: dict[int, list[Job]] = field(default_factory=dict)
    _empty: FitCache | None = None

    @classmethod
    def open(cls, snapshot: Snapshot, policy: Policy) -> Cycle:
        standing = snapshot.accounting or Accounting.of(snapshot.nodes, snapshot.queues, snapshot.jobs)
        placer = policy.placer if standing.inventory.kinds else BestFit()  # without GPUs there is no mix to learn
        scorer = placer.prepare(standing.ledger, standing.demands(snapshot.demand_history))
        return cls(
            snapshot=snapshot,
            policy=policy,
            inventory=standing.inventory,
            tree=standing.tree,
            search=Search(standing.inventory, standing.tree),
            shares=DominantShares(standing.tree, past_shares(snapshot, policy)),
            current=Occupancy(standing.ledger.copy(), standing.usage.copy(), scorer),
            running=standing.running,
            pending=standing.pending,
            leaving=[job for job in standing.running.values() if job.evicting or job.resizing_from is not None],
            allocations=standing.allocations,
        )

    def allocation_of(self, job: Job) -> Allocation:
        """Everything the job holds today, what it is leaving included."""
        return self.allocations[job.key]

    def running_in(self, queue: int) -> Sequence[Job]:
        """Jobs of this very queue that hold a placement and were not asked to leave before this cycle."""
        if self._by_queue is None:
            self._by_queue = {}
            for job in self.running.values():
                number = self.tree.index.get(job.queue)
                if number is not None and not job.evicting:
                    self._by_queue.setdefault(number, []).append(job)
        return self._by_queue.get(queue, ())

    def elastic_in(self, queue: int) -> Sequence[Job]:
        """Those of them that run with more workers than they need."""
        known = self._elastic.get(queue)
        if known is None:
            known = self._elastic[queue] = [
                job
                for job in self.running_in(queue)
                if job.workers_max > job.workers_min and job.placement and job.placement.workers > job.workers_min
            ]
        return known

    @property
    def empty(self) -> FitCache:
        """The nodes as they would be if nobody held anything."""
        if self._empty is None:
            self._empty = FitCache(Ledger(self.inventory), BestFit())
        return self._empty

    @property
    def after_evictions(self) -> Occupancy | None:
        """None while nobody is leaving."""
        if self._after_evictions is None and self.leaving:
            self.open_later()
        return self._after_evictions

    def open_later(self) -> Occupancy:
        """The books without those who leave."""
        if self._after_evictions is None:
            self._after_evictions = self.current.copy()
            for job in self.leaving:
                self._after_evictions.release(self.allocation_of(job))
                if not job.evicting and job.placement is not None:
                    self._after_evictions.allocate(allocation_of(job, job.placement, self.inventory, self.tree))
        return self._after_evictions

    def fits(self, books: Occupancy, request: Request) -> bool:
        """Whether `find` would find a place, without choosing one."""
        return self.search.fits(books, request)

    def find(self, books: Occupancy, request: Request, workers: int) -> PlacementResult | None:
        """The best place for the gang in these books, under every rule; nothing is taken."""
        return self.search.find(books, request, workers)

    def find_later(self, request: Request) -> PlacementResult | None:
        """A place that is free once those who are already leaving have left."""
        return None if self.after_evictions is None else self.find(self.after_evictions, request, request.workers)

    def allocate(self, found: PlacementResult) -> None:
        """Take room that is free now."""
        self.current.allocate(found.allocation)
        if self._after_evictions is not None:
            self._after_evictions.allocate(found.allocation)

    def admit(self, job: Job, found: PlacementResult) -> None:
        self.allocate(found)
        self.started.append((job, found.allocation))
        self.admitted[job.key] = Admit(job=job.key, placement=found.placement)

    def nominate(self, job: JobKey, found: PlacementResult) -> None:
        """Hold a place that becomes free when those who leave have left."""
        self.current.allocate(found.allocation)
        self.open_later().allocate(found.allocation)
        self.nominations[job] = found.placement

    def shrunk_placement(self, job: Job) -> Placement:
        """The job's placement without the workers that this cycle asked to leave."""
        if job.placement is None:
            raise ValueError(f"job {job.key} holds nothing")
        return without_ranks(job.placement, self.shrunk.get(job.key, frozenset()))

    def plan(self) -> Plan:
        for job in self.waiting:
            if job.key not in self.nominations:
                self.verdicts[job.key] = self.refused[self.asked[job.key]].verdict(job.key)
        return Plan(
            actions=(
                *(self.evicted[key] for key in sorted(self.evicted)),
                *(self.resized[key] for key in sorted(self.resized)),
                *(self.admitted[key] for key in sorted(self.admitted)),
            ),
            verdicts={key: self.verdicts[key] for key in sorted(self.verdicts)},
            nominations={key: self.nominations[key] for key in sorted(self.nominations)},
        )
