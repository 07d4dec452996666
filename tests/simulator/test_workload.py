"""A trace on a cluster: nodes, gangs, and the queues that only the trace names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.objects import GpuRequest
from cotenant.simulator.traces.trace import Trace, TraceError, TraceJob
from cotenant.simulator.workload import Cluster, apportioned, nodes_of, scenario_of


def job(name: str, gpus: int, *, queue: str = "red", duration_s: float = 100.0, at: float = 5.0) -> TraceJob:
    return TraceJob(name=name, submitted_at=at, duration_s=duration_s, gpus=gpus, queue=queue, declared_s=70)


def test_a_cluster_is_nodes_times_gpus_of_classes() -> None:
    nodes = nodes_of("2x8:A100, 1x4")
    assert [(node.name, len(node.gpus), node.gpus[0].gpu_class) for node in nodes] == [
        ("node-0000", 8, "A100"),
        ("node-0001", 8, "A100"),
        ("node-0002", 4, "GPU"),
    ]


@pytest.mark.parametrize("text", ["", "8", "0x8", "2x0", "2x8:", "2*8", "2x8,"])
def test_an_invalid_cluster_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(TraceError, match="52x8"):
        nodes_of(text)


@pytest.mark.parametrize(("gpus", "workers", "each"), [(1, 1, 1), (8, 1, 8), (5, 1, 5), (16, 2, 8), (12, 12, 1)])
def test_a_gang_takes_whole_nodes_or_a_part_of_one_node(gpus: int, workers: int, each: int) -> None:
    (arrival,) = scenario_of(Trace.of([job("one", gpus)]), Cluster(nodes_of("4x8"))).arrivals
    assert (arrival.job.workers_min, arrival.job.workers_max, arrival.job.gpu) == (
        workers,
        workers,
        GpuRequest(count=each),
    )


def test_the_decision_sees_the_declared_run_time_and_not_the_true_one() -> None:
    (arrival,) = scenario_of(Trace.of([job("one", 1)]), Cluster(nodes_of("1x1"))).arrivals
    assert (arrival.at, arrival.train_s, arrival.job.submitted_at, arrival.job.expected_runtime_s) == (
        5.0,
        100.0,
        5.0,
        70,
    )


def test_queues_of_a_trace_are_guaranteed_gpus_by_the_gpu_time_that_they_used() -> None:
    jobs = [job("a", 1, queue="red"), job("b", 2, queue="blue"), job("c", 1, queue="green", duration_s=500)]
    queues = scenario_of(Trace.of(jobs), Cluster(nodes_of("2x8"))).queues
    assert {queue.name: queue.quotas[0].guaranteed for queue in queues} == {"blue": 4000, "green": 10_000, "red": 2000}
    assert all(queue.quotas[0].limit is None for queue in queues)


def test_a_queue_that_the_documents_do_not_have_is_named() -> None:
    queues = scenario_of(Trace.of([job("a", 1, queue="red")]), Cluster(nodes_of("1x1"))).queues
    with pytest.raises(TraceError, match="blue"):
        scenario_of(Trace.of([job("b", 1, queue="blue")]), Cluster(nodes_of("1x1"), queues))


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1e9), min_size=1), st.integers(0, 5000))
def test_all_gpus_are_apportioned_and_nobody_is_off_by_a_whole_one(weights: dict[str, float], seats: int) -> None:
    found = apportioned(weights, seats)
    total = sum(weights.values())
    if total > 0:
        assert sum(found.values()) == seats
        assert all(abs(found[name] - seats * weights[name] / total) < 1 + 1e-6 for name in weights)
