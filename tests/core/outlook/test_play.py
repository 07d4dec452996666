"""A play of which everything is known beforehand comes to what then happens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from statistics import median

import pytest

from cotenant.core.model.objects import Job, JobKey, Placement, TimeOrder
from cotenant.core.model.plan import Plan
from cotenant.core.outlook.play import Play
from cotenant.core.placement import BestFit
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.simulator.engine import simulate
from cotenant.simulator.job_run import Costs
from cotenant.simulator.scenario import Arrival, Scenario
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

POLICY = Policy(placer=BestFit(), forecasts=0, advice=0)
DECLARED = {"true": 1.0, "none": None, "double": 2.0}


def workload(seed: int, declared: float | None, *, queues: int, levels: tuple[int, ...] = (0,)) -> Scenario:
    """Two nodes of four GPUs; jobs of one to eight GPUs arrive faster than they end. No two times are equal."""
    dice = random.Random(seed)
    names = [f"queue-{number}" for number in range(queues)]
    at, arrivals = 1_000.0, []
    for number in range(60):
        at += dice.expovariate(1 / 150) + 0.01
        true = dice.randint(60, 3_000) + number / 64
        job = make_job(
            f"j{number}",
            queue=dice.choice(names),
            gpus=dice.choice((1, 1, 1, 2, 4)),
            workers=dice.choice((1, 1, 2)),
            priority=dice.choice(levels),
            at=at,
            expected_runtime_s=None if declared is None else max(1, int(true * declared)),
        )
        arrivals.append(Arrival(at, job, true))
    limit = 8 // queues if levels == (0,) else None
    made = tuple(make_queue(name, guaranteed=8 // queues, limit=limit, order=TimeOrder.AGE) for name in names)
    return Scenario(1_000.0, (make_node("n1", gpus=4), make_node("n2", gpus=4)), made, tuple(arrivals))


def played(snapshot: Snapshot, scenario: Scenario, policy: Policy = POLICY) -> dict[JobKey, float]:
    true = {arrival.job.key: arrival.train_s for arrival in scenario.arrivals}

    def draw(job: Job, ran_s: float) -> float:
        return true[job.key] - job.ran_s - ran_s

    known = {job.key for job in snapshot.jobs}
    coming = [one.job for one in scenario.arrivals if one.at > snapshot.now and one.job.key not in known]
    play = Play(snapshot, policy, draw, iter(coming))
    while play.step():
        pass
    return play.starts


def moments(scenario: Scenario, number: int, policy: Policy = POLICY) -> tuple[list[Snapshot], dict[JobKey, float]]:
    """Snapshots at which much waited, and when every job started."""
    seen: list[Snapshot] = []

    def decide(snapshot: Snapshot) -> Plan:
        if sum(job.placement is None for job in snapshot.jobs) >= 5:
            seen.append(snapshot)
        return schedule(snapshot, policy)

    result = simulate(scenario, decide, costs=Costs(start_s=0.0, checkpoint_s=0.001))
    starts = {key: run.first_start for key, run in result.runs.items() if run.first_start is not None}
    return seen[:: max(1, len(seen) // number)], starts


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("seed", range(4))
def test_a_future_played_with_known_arrivals_and_run_times_comes_true(seed: int, declared: str) -> None:
    """Without evictions: no job borrows, and none ends later than it declared."""
    scenario = workload(seed, DECLARED[declared], queues=1 + seed % 2)
    snapshots, starts = moments(scenario, 3)

    for snapshot in snapshots:
        found = played(snapshot, scenario)
        assert found == {key: starts[key] for key in found}
        assert found.keys() == {job.key for job in snapshot.jobs if job.placement is None} & starts.keys()


@pytest.mark.parametrize("seed", range(4))
def test_a_future_played_with_known_run_times_comes_true_while_gpus_are_reserved(seed: int) -> None:
    """All jobs have a maxRuntime, because a play does not know what is learned meanwhile."""
    collects, never = replace(POLICY, collect_after_s=1_200), replace(POLICY, collect_after_s=0)
    drawn = workload(seed, 1.0, queues=1 + seed % 2)
    arrivals = [replace(one, job=replace(one.job, max_runtime_s=int(one.train_s) + 1)) for one in drawn.arrivals]
    scenario = replace(drawn, arrivals=tuple(arrivals))
    snapshots, starts = moments(scenario, 3, collects)

    found = [(one, played(one, scenario, collects)) for one in snapshots]
    assert [plays for _, plays in found] == [{key: starts[key] for key in plays} for _, plays in found]
    assert any(plays != played(one, scenario, never) for one, plays in found), "collecting would not matter"


def test_with_reclaims_the_median_estimate_is_off_by_at_most_a_tenth_of_the_wait() -> None:
    """The simulator decides once more when an ending comes due that an eviction made void; a play does not."""
    errors = []
    for seed in range(4):
        scenario = workload(seed, 1.0, queues=2, levels=(0, 0, 5))
        snapshots, starts = moments(scenario, 4)
        errors += [
            abs(starts[key] - at) / max(60.0, starts[key] - one.now)
            for one in snapshots
            for key, at in played(one, scenario).items()
        ]

    assert median(errors) <= 0.1


def test_no_step_of_a_play_starts_more_than_one_job() -> None:
    scenario = workload(1, 1.0, queues=1)
    snapshots, _ = moments(scenario, 1)
    play = Play(snapshots[0], POLICY, lambda *_: 100.0, iter(()))
    sizes = [0]
    while play.step():
        sizes.append(len(play.starts))

    assert all(later - before <= 1 for before, later in pairwise(sizes))


def test_a_nominated_job_starts_in_a_play_when_the_jobs_before_it_have_left() -> None:
    """No job ends, so it would not start otherwise."""
    queue = make_queue("red", guaranteed=1)
    scenario = Scenario(0.0, (make_node("n1", gpus=1),), (queue,), (Arrival(0.0, make_job("low", at=0), 1e6),))
    taken: list[Snapshot] = []

    def decide(snapshot: Snapshot) -> Plan:
        taken.append(snapshot)
        return schedule(snapshot, replace(POLICY, protected_runtime_s=0))

    urgent = make_job("urgent", at=10, priority=5)
    simulate(replace(scenario, arrivals=(*scenario.arrivals, Arrival(10.0, urgent, 100.0))), decide)
    nominated = next(one for one in taken if one.nominations)
    leaving = replace(
        nominated,
        accounting=None,
        jobs=tuple(
            replace(job, placement=nominated.nominations[0][1], admitted_at=0.0, evicting=True)
            if job.key == "red/low"
            else job
            for job in nominated.jobs
        ),
    )

    play = Play(leaving, POLICY, lambda *_: 100.0, iter(()))
    while play.step():
        pass

    assert play.starts["red/urgent"] == leaving.now + 30


HELD = make_placement(("n1", [[0]]))
RUNS = make_job("runs", placement=HELD, admitted_at=0.0)


def alone(*jobs: Job, nominations: tuple[tuple[JobKey, Placement], ...] = ()) -> Snapshot:
    """A node of one GPU, and its jobs."""
    queue = make_queue("red", guaranteed=1)
    return make_snapshot(nodes=[make_node("n1", gpus=1)], queues=[queue], jobs=list(jobs), nominations=nominations)


def arrivals(seen: list[Job], *moments: float) -> Iterator[Job]:
    """Jobs that come at these moments, noted when they are asked for; without end, a second apart, where none is."""
    for number, at in enumerate(moments or range(1_001, 9_999)):
        seen.append(make_job(f"new-{number}", at=at, priority=5))
        yield seen[-1]


def play_out(snapshot: Snapshot, ends_after_s: float | None, coming: Iterator[Job]) -> dict[JobKey, float]:
    play = Play(snapshot, POLICY, lambda *_: ends_after_s, coming)
    while play.step():
        pass
    return play.starts


@pytest.mark.parametrize(
    ("jobs", "ends_after_s", "arrived"),
    [
        pytest.param([RUNS, make_job("waits")], 1e9, 200 + 4 * 2 + 1, id="200 events, and four for each of its jobs"),
        pytest.param([RUNS], 1e9, 1, id="none, where nobody waits"),
        pytest.param([make_job("waits")], 1e9, 1, id="none, where everybody has started"),
        pytest.param([RUNS, make_job("waits")], None, 1, id="none, where nobody ends any more"),
    ],
)
def test_a_play_is_over_after(jobs: list[Job], ends_after_s: float | None, arrived: int) -> None:
    """One arrival is always looked at beforehand."""
    seen: list[Job] = []
    play_out(alone(*jobs), ends_after_s, arrivals(seen))
    assert len(seen) == arrived


def test_a_job_that_arrives_at_the_moment_of_an_ending_takes_its_turn_after_it() -> None:
    """Otherwise it would be first, because it has the higher priority."""
    assert play_out(alone(RUNS, make_job("waits")), 100.0, arrivals([], 1_100.0)) == {"red/waits": 1_100.0}


def test_a_nominated_place_belongs_to_its_job_and_places_of_moving_jobs_are_ignored() -> None:
    """The one that moves comes back after half a minute, as the oldest, and has a thousand seconds to go."""
    jobs = [replace(RUNS, evicting=True), make_job("older", at=500), make_job("nominated", at=501)]
    snapshot = alone(*jobs, nominations=(("red/nominated", HELD), ("red/runs", HELD)))
    assert play_out(snapshot, 1_000.0, iter(())) == {"red/nominated": 1_030.0, "red/older": 3_000.0}
