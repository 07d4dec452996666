"""Runs a scenario: time jumps from event to event, and the operator's own `schedule` makes every decision.

The world is simple. A job trains for its time on any placement. An evicted job loses its work since its last
checkpoint. A start takes a while (`Costs`). An elastic job trains in proportion to its width. The decision knows what a
job declares; it does not know the true training time before the job ends.

Cost: one cycle for each moment with an event while a job waits or could grow. If a decision may also change with time
alone (protection from evictions, patience), one more cycle every `tick_s` without events.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cotenant.core.model.objects import Job, JobKey, TimeOrder
from cotenant.core.model.plan import Admit, Evict, Plan, Resize
from cotenant.core.queueing.usage_history import HALF_LIFE_S
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import JobGone, JobObserved, NodeObserved, QueueObserved
from cotenant.simulator.job_run import Costs, JobRun
from cotenant.simulator.scenario import Scenario

Schedule = Callable[[Snapshot], Plan]


@dataclass(slots=True)
class SimulationResult:
    """Runs of all jobs, and the log of events."""

    start: float
    end: float
    runs: dict[JobKey, JobRun] = field(default_factory=dict)
    log: list[tuple[float, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Pace of the clock, and the length of the simulation."""

    tick_s: float | None = None
    """The longest pause between two decisions while a job waits, in seconds. None: decisions follow events only."""
    max_events: int = 1_000_000
    progress: Callable[[float, int], None] | None = None
    """Called from time to time with the virtual time and the number of finished jobs."""


USUAL = Costs()
EVENTS = Pace()


def simulate(
    scenario: Scenario,
    schedule: Schedule,
    *,
    costs: Costs = USUAL,
    half_life_s: int = HALF_LIFE_S,
    pace: Pace = EVENTS,
) -> SimulationResult:
    """Run until every job has ended or no further event can happen. Equal scenarios give equal histories.

    `half_life_s`: half-life of past borrowing for trees of queues that set none.
    """
    return _Simulation(scenario, schedule, costs, half_life_s).run(pace)


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
        self.elastic = any(one.job.workers_max > one.job.workers_min for one in scenario.arrivals)
        self.tells_checkpoints = any(queue.order is not TimeOrder.AGE for queue in scenario.queues)
        self.told_at = scenario.start
        self.waiting: set[JobKey] = set()
        self.running: dict[JobKey, None] = {}
        self.ended = 0
        heapq.heapify(self.agenda)

    def run(self, pace: Pace) -> SimulationResult:
        for count in range(pace.max_events):
            if not self.agenda:
                break
            following = self.agenda[0][0]
            if pace.tick_s is not None and self.waiting and following > self.now + pace.tick_s:
                self.now += pace.tick_s
            else:
                self.now = following
            while self.agenda and self.agenda[0][0] == self.now:
                self.process(*heapq.heappop(self.agenda)[2:])
            if self.waiting or self.elastic:
                self.tell_checkpoints()
                self.decide()
            if pace.progress is not None and count % 100 == 0:
                pace.progress(self.now, self.ended)
        self.history.end = self.now
        return self.history

    def process(self, key: JobKey, placements: int) -> None:
        run = self.history.runs.get(key)
        if run is None:
            self.history.runs[key] = JobRun(self.arrivals[key])
            self.waiting.add(key)
            self.state.observe(JobObserved(self.arrivals[key].job))
            if self.arrivals[key].job.placement is not None:
                self.admitted(key)
        elif run.placements == placements and run.end is None:
            run.credit(self.now)
            run.end = self.now
            self.ended += 1
            self.running.pop(key)
            self.state.advance(self.now)
            self.state.observe(JobGone(key, round(run.ran_s)))
            self.log(f"{key} ended")

    def tell_checkpoints(self) -> None:
        """Report when each running job last saved, as agents do: once between two checkpoints."""
        if not self.tells_checkpoints or self.now - self.told_at < self.costs.checkpoint_s:
            return
        self.told_at = self.now
        for key in self.running:
            saved_at = self.history.runs[key].saved_at(self.now, self.costs)
            if saved_at is not None:
                self.state.observe(JobObserved(replace(self.current(key), last_checkpoint_at=saved_at)))

    def decide(self) -> None:
        """Run cycles until the core has nothing more to do now, because an eviction frees GPUs that the next cycle
        assigns.
        """
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
            if all(isinstance(action, Admit) for action in plan.actions) and not self.elastic:
                return  # nothing became free, so the others had their turn

    def placed(self, action: Admit | Resize) -> None:
        if isinstance(action, Resize):
            self.history.runs[action.job].credit(self.now)
        placed = replace(self.current(action.job), placement=action.placement, admitted_at=self.now, resizing_from=None)
        self.state.observe(JobObserved(placed))
        self.admitted(action.job)
        nodes = ", ".join(node.node for node in action.placement.nodes)
        self.log(f"{action.job} {'admitted to' if isinstance(action, Admit) else 'resized on'} {nodes}")

    def admitted(self, key: JobKey) -> None:
        run = self.history.runs[key]
        self.waiting.discard(key)
        self.running[key] = None
        ends_at = run.place(self.current(key), self.now, self.costs)
        self.order += 1
        heapq.heappush(self.agenda, (ends_at, self.order, key, run.placements))

    def evicted(self, action: Evict) -> None:
        run, job = self.history.runs[action.job], self.current(action.job)
        run.evict(self.now, self.costs)
        self.waiting.add(action.job)
        self.running.pop(action.job)
        waits = replace(
            job,
            placement=None,
            admitted_at=None,
            requeued_at=self.now,
            backfilled_until=None,
            evicting=False,
            ran_s=round(run.ran_s),
        )
        self.state.observe(JobObserved(waits))
        self.log(f"{action.job} {action.kind.value.lower()} in favour of {action.in_favour_of}")

    def current(self, key: JobKey) -> Job:
        job = self.state.job(key)
        assert job is not None
        return job

    def log(self, line: str) -> None:
        self.history.log.append((self.now, line))
