"""Inputs: documents as a person has them. Outputs: whole histories. Time is virtual: nothing sleeps."""

from dataclasses import replace
from functools import partial

import pytest

from cotenant.core.model.plan import Plan
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.simulator import scenario
from cotenant.simulator.engine import Pace, simulate
from cotenant.simulator.job_run import Costs
from tests.simulator.worlds import NOTHING_LOST, ends, gpu_node, job, played, queue
from tests.support.clusters import UNPROTECTED


def test_two_jobs_that_fit_together_end_together_and_the_third_follows() -> None:
    jobs = [job(name, gpus=1, runs="100s") for name in ("one", "two", "three")]
    _, history = played(gpu_node("n", 2), queue("a", "2"), *jobs)
    assert sorted(end for end in ends(history).values() if end) == [100, 100, 200]


def test_after_a_preemption_the_other_job_ends_later_and_loses_nothing() -> None:
    first, second = job("first", gpus=2, runs="100s"), job("urgent", gpus=2, runs="50s", priority=10, second=30)
    read = scenario.read([gpu_node("n", 2), queue("a", "2"), first, second])
    # The documents' own moment is the newest of them: both are there from the start, the urgent one goes first.
    history = simulate(read, schedule, costs=NOTHING_LOST)
    assert ends(history) == {"a/first": 150, "a/urgent": 50}


def test_the_order_of_a_scenarios_documents_does_not_matter() -> None:
    jobs = [job(f"j{number}", gpus=1 + number % 2, runs=f"{50 + 7 * number}s") for number in range(8)]
    documents = [gpu_node("n", 2), gpu_node("m", 1), queue("a", "3"), *jobs]
    _, straight = played(*documents)
    _, reversed_ = played(*reversed(documents))
    assert straight.log == reversed_.log


@pytest.mark.parametrize(
    ("costs", "first", "urgent"),
    [
        (Costs(start_s=0, checkpoint_s=1), 150.0, 80.0),
        (Costs(start_s=10, checkpoint_s=1), 180.0, 90.0),
        (Costs(start_s=0, checkpoint_s=25), 155.0, 80.0),
        (Costs(start_s=0, checkpoint_s=600), 180.0, 80.0),
    ],
)
def test_an_eviction_costs_a_restart_and_the_work_since_the_last_checkpoint(
    costs: Costs, first: float, urgent: float
) -> None:
    jobs = [job("first", gpus=2, runs="100s"), job("urgent", gpus=2, runs="50s", priority=10, second=30)]
    read = scenario.read([gpu_node("n", 2), queue("a", "2"), *jobs])
    late = tuple(replace(one, at=read.start + (0 if one.job.key == "a/first" else 30)) for one in read.arrivals)
    history = simulate(replace(read, arrivals=late), partial(schedule, policy=UNPROTECTED), costs=costs)
    assert ends(history) == {"a/first": first, "a/urgent": urgent}
    assert history.runs["a/first"].evictions == 1


def test_a_stopped_simulation_ends_where_it_is() -> None:
    read = scenario.read([gpu_node("n", 1), queue("a", "1"), job("one", gpus=1, runs="100s")])
    history = simulate(read, schedule, costs=NOTHING_LOST, pace=Pace(max_events=1))
    assert (ends(history), history.end) == ({"a/one": None}, history.start)


def test_a_jobs_declaration_does_not_change_its_run_time() -> None:
    read = scenario.read([gpu_node("n", 1), queue("a", "1"), job("one", gpus=1, runs="100s")])
    liar = tuple(replace(one, train_s=700.0) for one in read.arrivals)
    assert ends(simulate(replace(read, arrivals=liar), schedule, costs=NOTHING_LOST)) == {"a/one": 700}


def test_the_decision_learns_the_run_times_of_finished_jobs() -> None:
    seen: list[tuple[int, ...]] = []

    def spying(snapshot: Snapshot) -> Plan:
        seen.append(snapshot.runtimes.groups.get("queue|a", ()))
        return schedule(snapshot)

    jobs = [job(f"j-{number}", gpus=1, runs="100s") for number in range(3)]
    simulate(scenario.read([gpu_node("n", 1), queue("a", "1"), *jobs]), spying, costs=Costs(start_s=5))
    assert seen[-1] == (105, 105)


def test_while_a_job_waits_a_decision_is_made_at_least_every_tick() -> None:
    moments: list[float] = []

    def spying(snapshot: Snapshot) -> Plan:
        moments.append(snapshot.now)
        return schedule(snapshot)

    read = scenario.read([gpu_node("n", 1), queue("a", "1"), *[job(name, gpus=1, runs="100s") for name in "ab"]])
    simulate(read, spying, costs=NOTHING_LOST, pace=Pace(tick_s=30))
    assert [at - read.start for at in moments] == [0, 30, 60, 90, 100]


def test_progress_reports_the_time_and_the_number_of_finished_jobs() -> None:
    told: list[tuple[float, int]] = []
    read = scenario.read([gpu_node("n", 1), queue("a", "1"), job("one", gpus=1, runs="100s")])
    simulate(read, schedule, costs=NOTHING_LOST, pace=Pace(progress=lambda now, ended: told.append((now, ended))))
    assert told == [(read.start, 0)]


def test_an_elastic_job_trains_at_the_number_of_workers_it_had() -> None:
    """One worker of two for 100 s, then both: half of 100 s is done when it grows, and 150 s are left."""
    wide = job("wide", gpus=2, runs="200s")
    wide["spec"]["minWorkers"] = 1
    first = job("first", gpus=1, runs="100s", priority=5)
    _, history = played(gpu_node("n", 2), queue("a", "2"), first, wide)
    assert ends(history) == {"a/first": 100, "a/wide": 250}
