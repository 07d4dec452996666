"""What the core counts beside placements: pods whose job, queue, placement or object is gone."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.kube import GPU_NODES, NODES, PODS, QUEUES, TRAINING_JOBS, Resource
from cotenant.controller.cluster.budgets.budgets import Budgets
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import (
    JOB_ID,
    T0,
    UID,
    ObservedCluster,
    admitted,
    job_document,
    new_cluster,
    pod,
    pod_document,
    terminated,
)
from tests.controller.cluster.cluster_view.view_of import GPU_NODE, NODE, held_gpus, put_job


def serve(cluster: ObservedCluster, *namespaces: str, version: int = 1) -> None:
    """A queue for these namespaces."""
    metadata = {"name": "red", "uid": "q", "resourceVersion": str(version)}
    spec = {"namespaces": list(namespaces), "quotas": [{"guaranteed": 1}]}
    cluster.cache.put(QUEUES, {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": metadata, "spec": spec})


def test_the_pods_of_a_deleted_job_hold_their_gpus_until_they_are_gone() -> None:
    cluster = new_cluster()
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}
    cluster.cache.put(TRAINING_JOBS, job_document() | {}, deleted=True)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    cluster.cache.put(PODS, pod_document(0, version=99), deleted=True)
    assert held_gpus(cluster) == {}


def test_the_pods_of_a_finished_job_hold_their_gpus_until_they_have_ended() -> None:
    cluster = new_cluster()
    put_job(cluster, TrainingJobStatus(phase=Phase.FAILED, attempts=1))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    cluster.cache.put(PODS, pod_document(0, version=99, status=terminated(1)))
    assert held_gpus(cluster) == {}


def test_the_pods_of_a_job_that_runs_without_a_placement_hold_what_they_were_given() -> None:
    cluster = new_cluster()
    put_job(cluster, TrainingJobStatus(phase=Phase.RUNNING, attempts=1))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}


@pytest.mark.parametrize(
    ("label", "queue"),
    [("", "blue"), ("red", "red"), ("green", "blue"), ("missing", "blue")],
    ids=["no label", "a label", "the label of a queue that serves others", "the label of no queue"],
)
def test_gpus_of_a_job_that_is_gone_are_counted_in_a_queue_that_serves_its_namespace(label: str, queue: str) -> None:
    cluster = new_cluster()
    for name, namespaces in (("red", ["red"]), ("green", ["green"]), ("blue", ["blue", "red"]), ("all", ["blue"])):
        spec = {"namespaces": namespaces, "quotas": [{"guaranteed": 1}]}
        metadata = {"name": name, "uid": f"q-{name}", "resourceVersion": "1"}
        cluster.cache.put(
            QUEUES, {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": metadata, "spec": spec}
        )
    document = pod_document(0, status={"phase": "Running"})
    document["metadata"]["labels"][names.LABEL_QUEUE] = label
    cluster.cache.put(PODS, document)
    cluster.sync(T0)
    (job,) = cluster.snapshot(T0).jobs
    assert job.queue == queue


def test_a_contract_of_no_attempt_books_nothing() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    cluster.cache.put(PODS, pod_document(0, attempt=0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {}


def test_a_placement_is_not_counted_twice_because_its_pods_are_there() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}


def test_pods_that_an_earlier_attempt_left_on_a_dead_node_still_hold() -> None:
    cluster = new_cluster()
    put_job(cluster, admitted(Phase.STARTING, ("n2", 1), attempts=2))
    cluster.cache.put(PODS, pod_document(0, attempt=1, status={"phase": "Running"}, deleting=True))
    assert held_gpus(cluster) == {"red/train": ["GPU-n2-0", "GPU-n1-0"]}


def report(cluster: ObservedCluster, version: int, *evidence: str) -> None:
    """The agent of n1 names the first pod, with this evidence, or nobody."""
    holder = {
        "podUID": "pod-1-0", "namespace": "red", "pod": "train-1-0", "job": "train", "jobUID": UID, "attempt": 1,
        "nodeRank": 0, "gpus": [{"uuid": "GPU-n1-0", "memoryMiB": 32_768, "computeMilli": 400}],
        "since": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    metadata = {"name": "n1", "uid": "g1", "resourceVersion": str(version)}
    status = {"holders": [holder | {"evidence": one} for one in evidence]}
    document = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": metadata, "status": status}
    cluster.cache.put(GPU_NODES, document)


def test_gpus_of_a_pod_that_is_deleted_by_force_are_held_until_its_node_says_that_it_is_gone() -> None:
    cluster = new_cluster()
    report(cluster, 1, "Pod")
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.cache.put(PODS, pod_document(0, version=99, status={"phase": "Running"}), deleted=True)
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}
    put_job(cluster, TrainingJobStatus(attempts=1), version=6)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    report(cluster, 2, "Processes")
    put_job(cluster, admitted(Phase.STARTING, ("n2", 1), attempts=2), version=7)
    assert held_gpus(cluster) == {"red/train": ["GPU-n2-0"], "red/train#uid-1": ["GPU-n1-0"]}
    cluster.cache.put(TRAINING_JOBS, job_document() | {}, deleted=True)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    report(cluster, 3)
    assert held_gpus(cluster) == {}


def test_a_pod_of_an_earlier_attempt_without_an_object_holds_beside_the_next_one_on_the_same_gpus() -> None:
    cluster = new_cluster()
    report(cluster, 1, "Processes")
    put_job(cluster, admitted(Phase.STARTING, ("n1", 1), attempts=2))
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"], "red/train#uid-1": ["GPU-n1-0"]}


def test_a_new_operator_counts_what_agents_report_though_there_is_neither_pod_nor_job() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    report(cluster, 1, "Processes")
    cluster.view.restore(T0)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}


def test_an_agent_that_takes_a_pod_of_others_for_a_holder_books_nothing() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    document = pod_document(0, status={"phase": "Running"})
    document["spec"]["containers"][0]["name"] = "other"
    cluster.cache.put(PODS, document)
    report(cluster, 1, "Pod")
    assert held_gpus(cluster) == {}


def test_a_namesake_that_comes_before_the_deletion_is_seen_frees_nothing() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    report(cluster, 1, "Pod")
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.cache.put(PODS, pod_document(0, uid="namesake", version=11, node="n2", status=terminated(0)))
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}


def test_a_pod_that_has_ended_in_its_last_state_is_free_at_once() -> None:
    cluster = new_cluster()
    report(cluster, 1, "Pod")
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.cache.put(PODS, pod_document(0, version=99, status=terminated(0)), deleted=True)
    assert held_gpus(cluster) == {}


def test_a_contract_in_a_namespace_that_no_queue_serves_books_nothing() -> None:
    """Anybody may make such a pod where no policy looks: with our labels, and with a contract for every GPU."""
    cluster = new_cluster()
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {}
    put_job(cluster)
    assert held_gpus(cluster) == {}
    assert cluster.view.granted_pods(cluster.cache.jobs["red/train"].id) == ()


def test_a_pod_that_was_granted_its_gpus_keeps_them_when_its_queue_no_longer_serves_it_and_its_job_is_gone() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.sync(T0)
    serve(cluster, "blue", version=2)
    cluster.sync(T0)
    cluster.cache.put(TRAINING_JOBS, job_document(), deleted=True)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}


def test_once_a_queue_serves_the_namespace_its_pods_count() -> None:
    cluster = new_cluster()
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.sync(T0)
    serve(cluster, "red")
    cluster.sync(T0)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}


def test_a_gpu_that_such_a_pod_is_on_is_not_handed_out_as_long_as_its_agent_sees_it_there() -> None:
    cluster = new_cluster()
    cluster.cache.put(NODES, NODE)
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    seen = []
    for version, processes in enumerate(([], [{"podUID": "pod-1-0", "memoryMiB": 7}], []), 2):
        metadata = GPU_NODE["metadata"] | {"resourceVersion": str(version)}
        gpus = [GPU_NODE["status"]["gpus"][0] | {"processes": processes}]
        cluster.cache.put(GPU_NODES, GPU_NODE | {"metadata": metadata, "status": GPU_NODE["status"] | {"gpus": gpus}})
        cluster.sync(T0)
        cluster.sync(T0)
        (node,) = cluster.snapshot(T0).nodes
        seen.append((node.gpus[0].healthy, dict(cluster.view.nodes.disputes)))
    why = {"n1": {"GPU-n1-0": "pod red/train-1-0 is on GPU GPU-n1-0 without a grant of it"}}
    assert seen == [(True, {}), (False, why), (True, {})]


@pytest.mark.parametrize(
    ("spec", "queue"),
    [({"queue": "blue"}, "blue"), ({"queue": "blue", "gpu": {"memoryFraction": "nonsense"}}, "red")],
    ids=["that of its spec", "where that cannot be read, one that serves its namespace"],
)
def test_pods_that_a_job_left_behind_are_counted_in_its_queue(spec: dict[str, Any], queue: str) -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    put_job(cluster, TrainingJobStatus(phase=Phase.FAILED, attempts=1), **spec)
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.sync(T0)
    assert [job.queue for job in cluster.snapshot(T0).jobs] == [queue]


def test_a_pod_that_was_asked_for_and_not_seen_holds_beside_the_placement_unless_that_is_of_its_attempt() -> None:
    cache, memories = ObjectCache(), JobMemories()
    cluster = ObservedCluster(cache, ClusterView(cache, memories, Settings(), Budgets()))
    serve(cluster, "red")
    memories[JOB_ID].unsettled = {"train-1-0": pod(0)}
    put_job(cluster, admitted(Phase.STARTING, ("n1", 1)))
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}
    put_job(cluster, admitted(Phase.STARTING, ("n2", 1), attempts=2), version=6)
    assert held_gpus(cluster) == {"red/train": ["GPU-n2-0"], "red/train#uid-1": ["GPU-n1-0"]}


@pytest.mark.parametrize(
    ("resource", "document", "held"),
    [(NODES, NODE, ["red/train#uid-1"]), (GPU_NODES, {"metadata": {"name": "n1", "uid": "g1"}}, [])],
    ids=["the node, while its agent names the pod", "the agent's report, without GPUs"],
)
def test_what_an_agent_named_is_free_when_the_agent_goes(
    resource: Resource, document: dict[str, Any], held: list[str]
) -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    cluster.cache.put(NODES, NODE)
    report(cluster, 1, "Processes")
    cluster.view.restore(T0)
    assert list(held_gpus(cluster)) == ["red/train#uid-1"]
    cluster.cache.put(resource, document, deleted=True)
    cluster.sync(T0)
    assert list(held_gpus(cluster)) == held
