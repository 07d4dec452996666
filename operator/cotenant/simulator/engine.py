"""Plays a scenario: time jumps from event to event, every decision is made by the same `schedule` as in the operator.

The world is as simple as the question allows: a job trains for `train_s` on any placement, an evicted job loses what it
did since its last checkpoint (`checkpoint_s` apart), starting costs `start_s`, an elastic job trains in proportion to
its width.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Admit, Evict, Plan, Resize, Verdict
from cotenant.core.queueing.usage_history import HALF_LIFE_S
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import JobGone, JobObserved, NodeObserved, QueueObserved
from cotenant.simulator.scenario import Arrival, Scenario

Schedule = Callable[[Snapshot], Plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    start_s: float = 10.0
    """From admission to the first step."""
    checkpoint_s: float = 600.0
    """Between two checkpoints: what an eviction loses at most."""


@dataclass(slots=True)
class JobRun:
    """One job on its way through the simulation."""

    arrival: Arrival
    trained_s: float = 0.0
    training_since: float | None = None
    """Since when the present attempt trains."""
    placements: int = 0
    """Counts placements: an end that was foreseen for an earlier one is void."""
    first_start: float | None = None
    end: float | None = None
    evictions: int = 0
    held_milli_s: float = 0.0
    verdict: Verdict | None = None
    """The last reason for which it waited."""


@dataclass(slots=True)
class SimulationResult:
    """Runs of all jobs, and the log of what happened."""

    start: float
    end: float
    runs: dict[JobKey, JobRun] = field(default_factory=dict)
    log: list[tuple[float, str]] = field(default_factory=list)


def simulate(
    scenario: Scenario,
    schedule: Schedule,
    *,
    costs: Costs = Costs(),
    half_life_s: int = HALF_LIFE_S,
    max_events: int = 1_000_000,
) -> SimulationResult:
    """Until every job has ended or nothing can happen any more. Same scenario, same history. `half_life_s`: of past
    borrowing, in trees of queues that set none."""
    return _Simulation(scenario, schedule, costs, half_life_s).run(max_events)


class _Simulation:
    def __init__(self, scenario: Scenario, schedule: Schedule, costs: Costs, half_life_s: int) -> None:
        self.schedule, self.costs, self.now = schedule, costs, scenario.start
        self.state = ClusterState(history_half_life_s=half_life_s)
        for node in scenario.nodes:
            self.state.observe(NodeObserved(node))
        for queue in scenario.queues:
            self.state.observe(QueueObserved(queue))
        self.history = SimulationResult(scenario.start, scenario.start)
        # (time, order, job, placements): 0 for arrivals; for ends the count of placements that they end.
        self.agenda = [
            (arrival.at, number, arrival.job.key, 0)
            for number, arrival in enumerate(sorted(scenario.arrivals, key=lambda item: (item.at, item.job.key)))
        ]
        self.order = len(self.agenda)
        self.arrivals = {arrival.job.key: arrival for arrival in scenario.arrivals}
        heapq.heapify(self.agenda)

    def run(self, max_events: int) -> SimulationResult:
        for _ in range(max_events):
            if not self.agenda:
                break
            self.now = self.agenda[0][0]
            while self.agenda and self.agenda[0][0] == self.now:
                self.process(*heapq.heappop(self.agenda)[2:])
            self.decide()
        self.history.end = self.now
        return self.history

    def process(self, key: JobKey, placements: int) -> None:
        run = self.history.runs.get(key)
        if run is None:
            self.history.runs[key] = JobRun(self.arrivals[key])
            self.state.observe(JobObserved(self.arrivals[key].job))
            if self.arrivals[key].job.placement is not None:
                self.admitted(key)
        elif run.placements == placements and run.end is None:
            self.credit(key)
            run.end = self.now
            self.state.observe(JobGone(key))
            self.log(f"{key} ended")

    def decide(self) -> None:
        """Cycle until the core has nothing more to do now: an eviction frees what the next cycle hands out."""
        for _ in range(100):
            self.state.advance(self.now)
            plan = self.schedule(self.state.snapshot(self.now))
            for key, verdict in plan.verdicts.items():
                self.history.runs[key].verdict = verdict
            if not plan.actions:
                return
            self.state.assume(plan, self.now)
            for action in plan.actions:
                match action:
                    case Evict():
                        self.evicted(action)
                    case Admit() | Resize():
                        self.placed(action)

    def placed(self, action: Admit | Resize) -> None:
        job = self.current(action.job)
        if isinstance(action, Resize):
            self.credit(action.job)
        self.state.observe(JobObserved(replace(job, placement=action.placement, admitted_at=self.now)))
        self.admitted(action.job)
        nodes = ", ".join(node.node for node in action.placement.nodes)
        self.log(f"{action.job} {'admitted to' if isinstance(action, Admit) else 'resized on'} {nodes}")

    def admitted(self, key: JobKey) -> None:
        run, job = self.history.runs[key], self.current(key)
        run.placements += 1
        run.training_since = self.now + self.costs.start_s
        if run.first_start is None:
            run.first_start = self.now
        left = max(0.0, run.arrival.train_s - run.trained_s) / speed(job)
        self.order += 1
        heapq.heappush(self.agenda, (run.training_since + left, self.order, key, run.placements))

    def evicted(self, action: Evict) -> None:
        run, job = self.history.runs[action.job], self.current(action.job)
        before = run.trained_s
        self.credit(action.job)
        lost = (run.trained_s - before) % self.costs.checkpoint_s
        run.trained_s -= lost
        run.evictions += 1
        run.placements += 1
        waits = replace(job, placement=None, admitted_at=None, backfilled_until=None, evicting=False)
        self.state.observe(JobObserved(waits))
        self.log(f"{action.job} {action.kind.value.lower()} in favour of {action.in_favour_of}")

    def credit(self, key: JobKey) -> None:
        """Credit the running attempt up to now."""
        run, job = self.history.runs[key], self.current(key)
        if run.training_since is None or job.placement is None:
            return
        trained = max(0.0, self.now - run.training_since) * speed(job)
        run.trained_s = min(run.arrival.train_s, run.trained_s + trained)
        milli = sum(gpu.compute_milli for node in job.placement.nodes for rank in node.ranks for gpu in rank.gpus)
        run.held_milli_s += milli * max(0.0, self.now - (run.training_since - self.costs.start_s))
        run.training_since = None

    def current(self, key: JobKey) -> Job:
        job = self.state.job(key)
        assert job is not None
        return job

    def log(self, line: str) -> None:
        self.history.log.append((self.now, line))


def speed(job: Job) -> float:
    """Speed relative to the job's full width."""
    return 1.0 if job.placement is None else job.placement.workers / max(1, job.workers_max)
