"""Inputs: documents as a person has them. Outputs: whole histories. Time is virtual: nothing sleeps."""

from dataclasses import replace

import pytest

from cotenant.core import schedule
from cotenant.simulator import scenario
from cotenant.simulator.engine import Costs, simulate
from tests.simulator.worlds import NOTHING_LOST, ends, gpu_node, job, played, queue


def test_two_jobs_that_fit_together_end_together_and_the_third_follows() -> None:
    jobs = [job(name, gpus=1, runs="100s") for name in ("one", "two", "three")]
    _, history = played(gpu_node("n", 2), queue("a", "2"), *jobs)
    assert sorted(end for end in ends(history).values() if end) == [100, 100, 200]


def test_a_job_of_higher_priority_takes_the_gpus_and_the_other_one_ends_later_with_nothing_lost() -> None:
    first, second = job("first", gpus=2, runs="100s"), job("urgent", gpus=2, runs="50s", priority=10, second=30)
    read = scenario.read([gpu_node("n", 2), queue("a", "2"), first, second])
    # The documents' own moment is the newest of them: both are there from the start, the urgent one goes first.
    history = simulate(read, schedule, costs=NOTHING_LOST)
    assert ends(history) == {"a/first": 150, "a/urgent": 50}


def test_the_same_scenario_in_another_order_gives_the_same_history() -> None:
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
def test_an_eviction_costs_a_start_and_what_was_done_since_the_last_checkpoint(
    costs: Costs, first: float, urgent: float
) -> None:
    jobs = [job("first", gpus=2, runs="100s"), job("urgent", gpus=2, runs="50s", priority=10, second=30)]
    read = scenario.read([gpu_node("n", 2), queue("a", "2"), *jobs])
    late = tuple(replace(one, at=read.start + (0 if one.job.key == "a/first" else 30)) for one in read.arrivals)
    history = simulate(replace(read, arrivals=late), schedule, costs=costs)
    assert ends(history) == {"a/first": first, "a/urgent": urgent}
    assert history.runs["a/first"].evictions == 1


def test_a_simulation_that_may_not_go_on_ends_where_it_is() -> None:
    read = scenario.read([gpu_node("n", 1), queue("a", "1"), job("one", gpus=1, runs="100s")])
    history = simulate(read, schedule, costs=NOTHING_LOST, max_events=1)
    assert (ends(history), history.end) == ({"a/one": None}, history.start)
