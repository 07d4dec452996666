"""Documents that are played: who arrives when, for how long, on which nodes."""

from typing import Any

import pytest

from cotenant.simulator import scenario
from tests.simulator.worlds import gpu_node, job, queue

WORLD = (gpu_node("n", 1), queue("a", "1"))


def test_a_list_counts_as_its_items_and_an_empty_scenario_says_what_is_missing() -> None:
    items = {"kind": "List", "items": [gpu_node("n", 1), queue("a", "1"), job("one", gpus=1, runs="5s")]}
    assert len(scenario.read([items]).arrivals) == 1
    with pytest.raises(scenario.ScenarioError, match="no GPUNode"):
        scenario.read([queue("a", "1")])
    with pytest.raises(scenario.ScenarioError, match="no TrainingJob"):
        scenario.read([gpu_node("n", 1)])


def test_a_job_older_than_the_documents_arrives_at_their_time() -> None:
    node = gpu_node("n", 1)
    node["status"]["heartbeat"] = "2026-01-01T00:00:10Z"
    jobs = [job("old", gpus=1, runs="60s", second=5), job("new", gpus=1, runs="2m", second=30)]
    for moment, old, new in ((None, 25, 0), ("2026-01-01T00:00:40Z", 35, 10)):
        node["status"]["heartbeat"] = moment or node["status"]["heartbeat"]
        read = scenario.read([node, queue("a", "1"), *jobs])
        assert [(one.job.key, one.at - read.start, one.train_s) for one in read.arrivals] == [
            ("a/old", 0, 60.0),
            ("a/new", 0, 120.0),
        ]
        waited = {one.job.key: read.start - (one.job.submitted_at or 0) for one in read.arrivals}
        assert waited == {"a/old": old, "a/new": new}


@pytest.mark.parametrize(
    ("fields", "train_s"),
    [({"expectedRuntime": "90s", "maxRuntime": "2h"}, 90.0), ({"maxRuntime": "2h"}, 7200.0), ({}, 3600.0)],
)
def test_a_job_trains_for_its_expected_or_maximum_run_time(fields: dict[str, str], train_s: float) -> None:
    document = job("one", gpus=1, runs="1s")
    del document["spec"]["expectedRuntime"]
    document["spec"] |= fields
    assert scenario.read([*WORLD, document]).arrivals[0].train_s == train_s


SHAPE = {"workers": 2, "gpu": {"count": 1}, "resources": {"cpu": "1", "memory": "1Gi"}}
PROFILE = {
    "apiVersion": "cotenant.dev/v1beta1", "kind": "TrainingProfile", "metadata": {"name": "two", "namespace": "a"},
    "spec": SHAPE,
}  # fmt: skip
STOOD_FOR = {"profile": {"name": "two", "kind": "TrainingProfile", "spec": SHAPE | {"workers": 1}}}


@pytest.mark.parametrize(
    ("documents", "status", "workers"),
    [([PROFILE], {}, [2]), ([PROFILE], STOOD_FOR, [1]), ([], STOOD_FOR, [1]), ([], {}, [])],
    ids=["as the documents say", "as it was when the job was first seen", "the profile is deleted", "nobody knows it"],
)
def test_a_job_has_what_its_profile_stands_for(
    documents: list[dict[str, Any]], status: dict[str, Any], workers: list[int]
) -> None:
    named = job("named", gpus=1, runs="1s") | {"status": status}
    for field in SHAPE:
        del named["spec"][field]
    named["spec"]["profile"] = "two"
    read = scenario.read([*WORLD, *documents, named, job("whole", gpus=1, runs="1s")])
    assert [one.job.workers_max for one in read.arrivals if one.job.key == "a/named"] == workers
    left_out = "1 of 2 jobs name a profile that is not among the documents, and are not simulated"
    assert (left_out in read.notes) == (not workers)


def test_a_job_has_the_priority_of_its_class() -> None:
    high = job("high", gpus=1, runs="1s")
    del high["spec"]["priority"]
    high["spec"]["priorityClassName"] = "urgent"
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    (arrival,) = scenario.read([*WORLD, urgent | {"value": 500}, high]).arrivals
    assert arrival.job.priority == 500
    with pytest.raises(scenario.ScenarioError, match="there is no PriorityClass 'urgent'"):
        scenario.read([*WORLD, high])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Invalid", "Suspended"])
def test_a_job_that_has_ended_or_is_held_back_does_not_arrive(phase: str) -> None:
    over = job("over", gpus=1, runs="1s") | {"status": {"phase": phase}}
    read = scenario.read([*WORLD, over, job("one", gpus=1, runs="1s")])
    assert [one.job.key for one in read.arrivals] == ["a/one"]


def test_a_node_that_is_not_among_the_documents_is_ready_and_large() -> None:
    (node,) = scenario.read([*WORLD, job("one", gpus=1, runs="1s")]).nodes
    assert (node.name, node.ready, node.memory_mib, len(node.gpus)) == ("n", True, scenario.UNKNOWN_MIB, 1)


def test_a_replay_repeats_arrivals_and_the_run_times_of_finished_jobs() -> None:
    over = job("over", gpus=1, runs="1s", second=10)
    over["status"] = {"phase": "Succeeded", "usage": {"runSeconds": 77}}
    lost = job("lost", gpus=1, runs="1s", second=15) | {"status": {"phase": "Failed"}}
    running = job("running", gpus=1, runs="60s", second=30)
    read = scenario.read([*WORLD, over, lost, running], replay=True)
    assert [(one.job.key, one.at - read.start, one.train_s, one.job.placement) for one in read.arrivals] == [
        ("a/over", 0, 77.0, None),
        ("a/running", 20, 60.0, None),
    ]
    assert read.notes == (
        "1 of 3 jobs have ended or are suspended, and are not simulated",
        "1 of 2 jobs run exactly as long as their expectedRuntime says",
    )


def test_assumptions_about_the_documents_are_listed() -> None:
    silent = job("silent", gpus=1, runs="1s", second=5)
    del silent["spec"]["expectedRuntime"]
    over = job("over", gpus=1, runs="1s") | {"status": {"phase": "Succeeded"}}
    assert scenario.read([*WORLD, silent, over, job("new", gpus=1, runs="9s", second=30)]).notes == (
        "1 of 3 jobs have ended or are suspended, and are not simulated",
        "1 of 2 jobs were created before the time of the documents and wait from the start; with --replay each arrives"
        " when it was created",
        "1 of 2 jobs run exactly as long as their expectedRuntime says",
        "1 of 2 jobs declare no expectedRuntime; they run for maxRuntime, or an hour",
    )


def test_a_cluster_without_jobs_can_be_read_alone() -> None:
    nodes, queues = scenario.read_cluster(WORLD)
    assert ([node.name for node in nodes], [queue.name for queue in queues]) == (["n"], ["a"])
    with pytest.raises(scenario.ScenarioError, match="no GPUNode"):
        scenario.read_cluster([queue("a", "1")])
