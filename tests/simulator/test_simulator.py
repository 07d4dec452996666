"""Inputs: documents as a person has them, or core values. Outputs: whole histories. Time is virtual: nothing sleeps."""

from typing import Any

import pytest

from cotenant.core import schedule
from cotenant.simulator import report, scenario
from cotenant.simulator.engine import Costs, SimulationResult, simulate

NOTHING_LOST = Costs(start_s=0, checkpoint_s=1)


def gpu_node(name: str, gpus: int) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1alpha1",
        "kind": "GPUNode",
        "metadata": {"name": name},
        "status": {
            "heartbeat": "2026-01-01T00:00:00Z",
            "simulated": True,
            "gpus": [
                {"uuid": f"GPU-{name}-{index}", "index": index, "class": "H100", "memoryMiB": 81920}
                for index in range(gpus)
            ],
        },
    }


def queue(name: str, guaranteed: str) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"namespaces": [name], "quotas": [{"guaranteed": guaranteed, "limit": guaranteed}]},
    }


def job(name: str, *, gpus: int, runs: str, priority: int = 0, queue: str = "a", second: int = 0) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {
            "name": name,
            "namespace": queue,
            "uid": f"uid-{name}",
            "creationTimestamp": f"2026-01-01T00:00:{second:02d}Z",
        },
        "spec": {
            "queue": queue,
            "workers": gpus,
            "priority": priority,
            "gpu": {"count": 1},
            "resources": {"cpu": "1", "memory": "1Gi"},
            "runtime": {"command": ["train"]},
            "expectedRuntime": runs,
        },
    }


def played(*documents: dict[str, Any]) -> tuple[scenario.Scenario, SimulationResult]:
    read = scenario.read(documents)
    return read, simulate(read, schedule, costs=NOTHING_LOST)


def ends(history: SimulationResult) -> dict[str, float | None]:
    return {key: run.end and run.end - history.start for key, run in sorted(history.runs.items())}


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


def test_what_can_never_start_is_reported_with_the_reason_of_the_core() -> None:
    read, history = played(
        gpu_node("n", 2), queue("a", "16"), job("big", gpus=16, runs="10s"), job("ok", gpus=1, runs="10s")
    )
    summary = report.summarise(read, history)
    assert (summary.jobs, summary.ended) == (2, 1)
    ((name, why),) = summary.never
    assert name == "a/big"
    assert why.startswith("ExceedsCluster")


def test_the_gpus_are_busy_for_exactly_what_was_held() -> None:
    read, history = played(
        gpu_node("n", 2), queue("a", "2"), job("one", gpus=1, runs="100s"), job("two", gpus=2, runs="100s")
    )
    # 100 s with one or two of two GPUs, then the rest: 300 GPU-seconds of 400.
    assert report.summarise(read, history).gpus_busy_percent == pytest.approx(75.0)


def test_the_same_scenario_in_another_order_gives_the_same_history() -> None:
    jobs = [job(f"j{number}", gpus=1 + number % 2, runs=f"{50 + 7 * number}s") for number in range(8)]
    documents = [gpu_node("n", 2), gpu_node("m", 1), queue("a", "3"), *jobs]
    _, straight = played(*documents)
    _, reversed_ = played(*reversed(documents))
    assert straight.log == reversed_.log


def test_a_list_counts_as_its_items_and_an_empty_scenario_says_what_is_missing() -> None:
    items = {"kind": "List", "items": [gpu_node("n", 1), queue("a", "1"), job("one", gpus=1, runs="5s")]}
    assert len(scenario.read([items]).arrivals) == 1
    with pytest.raises(scenario.ScenarioError, match="no GPUNode"):
        scenario.read([queue("a", "1")])
    with pytest.raises(scenario.ScenarioError, match="no TrainingJob"):
        scenario.read([gpu_node("n", 1)])
