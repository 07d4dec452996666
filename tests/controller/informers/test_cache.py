"""What is known of the cluster, whatever the order in which it was told. Pure: documents in, records out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from cotenant import names
from cotenant.api.conversion.quota_grants import spec_digest
from cotenant.api.conversion.to_core import parse_quota_request
from cotenant.controller.client.kube import (
    GPU_NODES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    QUOTA_REQUESTS,
    TRAINING_JOBS,
    Document,
    Listing,
    Resource,
    key_of,
)
from cotenant.controller.informers import cache as cache_module
from cotenant.controller.informers import node_index, profile_index
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobId
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, UID, admitted, job_document, pod_document


def versioned(document: Document, version: int) -> Document:
    return document | {"metadata": document["metadata"] | {"resourceVersion": str(version)}}


def phase_of(cache: ObjectCache) -> str:
    record = cache.jobs.get("red/train")
    return str(record.status.phase) if record else "gone"


def test_the_newest_version_wins_in_every_order() -> None:
    told = [
        versioned(job_document(status={"phase": "Pending"}), 5),
        versioned(job_document(status={"phase": "Starting"}), 6),
        versioned(job_document(status={"phase": "Running"}), 7),
    ]
    for order in itertools.permutations(told):
        cache = ObjectCache()
        for document in order:
            cache.put(TRAINING_JOBS, document)
        assert phase_of(cache) == "Running"


def test_what_was_deleted_does_not_come_back_by_a_late_answer() -> None:
    cache = ObjectCache()
    cache.put(TRAINING_JOBS, job_document())
    cache.put(TRAINING_JOBS, versioned(job_document(), 9), deleted=True)
    cache.put(TRAINING_JOBS, versioned(job_document(status={"phase": "Running"}), 8))
    assert phase_of(cache) == "gone"


def test_a_namesake_that_came_later_is_another_job() -> None:
    cache = ObjectCache()
    cache.put(TRAINING_JOBS, versioned(job_document(status={"phase": "Running"}), 50))
    again = job_document()
    again["metadata"] |= {"uid": "another", "resourceVersion": "60"}
    cache.put(TRAINING_JOBS, again)
    cache.put(TRAINING_JOBS, versioned(job_document(), 61), deleted=True)
    assert cache.jobs["red/train"].uid == "another"


def test_a_list_drops_what_is_missing_but_not_what_is_newer_than_itself() -> None:
    cache = ObjectCache()
    cache.put(TRAINING_JOBS, versioned(job_document("old"), 5) | {"metadata": _named("old", "u1", 5)})
    cache.put(TRAINING_JOBS, job_document("new") | {"metadata": _named("new", "u2", 30)})
    cache.replace(TRAINING_JOBS, Listing((), 20))
    assert set(cache.jobs) == {"red/new"}


def _named(name: str, uid: str, version: int) -> dict[str, Any]:
    return {"name": name, "namespace": "red", "uid": uid, "resourceVersion": str(version)}


def test_a_repeated_document_is_no_news() -> None:
    woken: list[int] = []
    cache = ObjectCache(lambda: woken.append(1))
    for _ in range(3):
        cache.put(TRAINING_JOBS, job_document())
    assert len(woken) == 1


def test_a_job_that_cannot_be_read_keeps_its_status_and_says_what_is_wrong() -> None:
    cache = ObjectCache()
    cache.put(TRAINING_JOBS, job_document(status={"phase": "Running"}, gpu={"memoryFraction": "1.5"}))
    record = cache.jobs["red/train"]
    assert (record.job, str(record.status.phase), "spec.gpu.memoryFraction" in str(record.problem)) == (
        None,
        "Running",
        True,
    )


def test_a_queue_that_cannot_be_read_grants_nothing() -> None:
    cache = ObjectCache()
    good = {
        "apiVersion": names.API_VERSION,
        "kind": "Queue",
        "metadata": {"name": "red", "uid": "q", "resourceVersion": "1"},
        "spec": {"quotas": [{"guaranteed": 4}]},
    }
    cache.put(QUEUES, good)
    cache.put(QUEUES, versioned(good | {"spec": {"weight": "heavy"}}, 2))
    assert cache.queues == {}


JOB = JobId("red", "train", UID)
GPU_NODE = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": "n1", "uid": "g"}}
NODE = {"metadata": {"name": "n1", "uid": "n"}, "status": {"allocatable": {"cpu": "8"}}}
QUEUE = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "red", "uid": "q"}, "spec": {}}
CLASS = {"metadata": {"name": "high", "uid": "c"}, "value": 100}


def known(cache: ObjectCache) -> dict[str, Any]:
    """Names of what is known of each kind."""
    return {
        "trainingjobs": {key: record.job is not None for key, record in cache.jobs.items()},
        "pods": {name: pod.held for name in ("train-1-0", "other") if (pod := cache.pods.get(f"red/{name}"))},
        "nodes": {name: facts.cpu_milli for name, facts in cache.nodes.facts.items()},
        "gpunodes": set(cache.nodes.gpu_nodes),
        "queues": set(cache.queues),
        "priorityclasses": cache.priority_classes,
    }


def with_defect(reader: Callable[..., Any]) -> Callable[..., Any]:
    """The reader, of which a broken document shows a defect."""

    def read(document: Document, *more: Any) -> Any:
        if "broken" in document:
            raise RecursionError("a \x1b[31m defect\u202e in a reader " + 1000 * "x")
        return reader(document, *more)

    return read


@pytest.mark.parametrize(
    ("resource", "good", "left"),
    [
        pytest.param(TRAINING_JOBS, job_document(), {"red/train": False, "red/other": True}, id="a job"),
        pytest.param(PODS, pod_document(0), {"train-1-0": True, "other": True}, id="a pod"),
        pytest.param(NODES, NODE, {"n1": 8000, "other": 8000}, id="a node"),
        pytest.param(GPU_NODES, GPU_NODE, {"n1", "other"}, id="an agent's report"),
        pytest.param(QUEUES, QUEUE, {"other"}, id="a queue, which grants nothing then"),
        pytest.param(PRIORITY_CLASSES, CLASS, {"high": 100, "other": 100}, id="a priority class"),
    ],
)
def test_an_object_that_breaks_its_reader_is_named_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, resource: Resource, good: Document, left: Any
) -> None:
    for module, name in (
        (profile_index, "read_job"),
        (cache_module, "read_pod"),
        (cache_module, "parse_queue"),
        (node_index, "to_node_facts"),
        (node_index, "parse_gpunode"),
    ):
        monkeypatch.setattr(module, name, with_defect(getattr(module, name)))
    cache = ObjectCache()
    cache.put(resource, versioned(good, 5))
    broken = versioned(good | {"broken": True, "value": "many"}, 6)
    other = good | {"metadata": good["metadata"] | {"name": "other", "uid": "other", "resourceVersion": "6"}}
    cache.replace(resource, Listing((broken, other), 7))
    why = cache.unreadable[resource.plural, key_of(good["metadata"])]
    assert (len(why) < 310, why.isprintable()) == (True, True)
    found = known(cache)[resource.plural]
    assert found == left
    cache.put(resource, versioned(good, 8))
    assert cache.unreadable == {}


def test_a_pod_that_cannot_be_read_is_not_taken_for_the_one_that_had_its_name() -> None:
    cache = ObjectCache()
    cache.put(PODS, pod_document(0))
    another = versioned(pod_document(0, uid="another"), 11)
    another["status"] = "not a status"
    cache.put(PODS, another)
    assert (list(cache.unreadable), list(cache.pods_of(JOB))) == ([("pods", "red/train-1-0")], [])


def test_a_pod_whose_last_state_cannot_be_read_is_gone_all_the_same() -> None:
    cache = ObjectCache()
    cache.put(PODS, pod_document(0))
    cache.put(PODS, versioned(pod_document(0), 11) | {"status": "not a status"}, deleted=True)
    assert (cache.unreadable, list(cache.pods_of(JOB))) == ({}, [])


def reported(version: int, **status: Any) -> Document:
    return versioned(GPU_NODE | {"status": {"isolation": "Watched"} | status}, version)


def limit_of(pod_uid: str, in_force: int) -> dict[str, Any]:
    found = {"wanted": 9, "state": "InForce", "inForce": in_force}
    return {"podUID": pod_uid, "uuid": "GPU-a", "dimension": "Memory", **found}


SICK = {"uuid": "GPU-b", "index": 0, "class": "H100", "memoryMiB": 9, "healthy": False, "drain": True}


@pytest.mark.parametrize(
    ("report", "looked_at"),
    [
        pytest.param({"limits": [limit_of("pod-1-0", 9)]}, False, id="the same"),
        pytest.param({"limits": [limit_of("pod-1-0", 8)]}, True, id="another limit"),
        pytest.param({}, True, id="its limit is gone"),
        pytest.param({"limits": [limit_of(uid, 9) for uid in ("pod-1-0", "else")]}, False, id="a limit of another pod"),
        pytest.param({"limits": [limit_of("pod-1-0", 9)], "gpus": [SICK]}, True, id="a GPU to be drained"),
        pytest.param({"limits": [limit_of("pod-1-0", 9)], "isolation": "Hard"}, True, id="another best of the node"),
    ],
)
def test_a_job_is_looked_at_when_what_is_enforced_on_it_may_be_other_than_before(
    report: dict[str, Any], looked_at: bool
) -> None:
    cache = ObjectCache()
    cache.put(PODS, pod_document(0, uid="pod-1-0"))
    cache.put(GPU_NODES, reported(5, limits=[limit_of("pod-1-0", 9)]))
    cache.pop_changes()
    cache.put(GPU_NODES, reported(6, **report))
    assert cache.pop_changes().jobs == ({JOB} if looked_at else set())


def quota_request(version: int, decision: str | None = None) -> Document:
    """A request without an answer, or answered."""
    spec = {"quotas": [{"gpus": 2}], "until": "2090-01-01T00:00:00Z", "reason": "a paper"}
    metadata = {"name": "more", "namespace": "red", "uid": "q1"}
    document = versioned({"apiVersion": names.API_VERSION, "kind": "QuotaRequest", "metadata": metadata}, version)
    document |= {"spec": spec}
    if decision is None:
        return document
    moment = "2026-01-01T00:00:00Z"
    digest = spec_digest(parse_quota_request(document).spec)
    granted = {"queue": "red", "quotas": spec["quotas"], "since": moment, "until": spec["until"], "digest": digest}
    return document | {"status": {"granted": granted, "approval": {"decision": decision, "by": "grace"}}}


def test_queues_are_read_again_for_what_a_request_grants_and_not_for_what_it_asks() -> None:
    cache, seen = ObjectCache(), list[tuple[bool, list[str]]]()
    for document in (quota_request(1), quota_request(2), quota_request(3, "Approved"), quota_request(4, "Approved"),
                     quota_request(5, "Denied")):  # fmt: skip
        cache.put(QUOTA_REQUESTS, document)
        seen.append((cache.pop_changes().queues, list(cache.quota_grants)))
    cache.put(QUOTA_REQUESTS, quota_request(5, "Denied"), deleted=True)
    assert seen == [(False, []), (False, []), (True, ["red/more"]), (False, ["red/more"]), (True, [])]
    assert (cache.pop_changes().queues, cache.quota_requests) == (False, {})


def test_what_queues_have_spent_is_no_change_of_the_tenancy() -> None:
    cache, seen = ObjectCache(), [0]
    queue = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "red", "uid": "r"}}
    spec = {"namespaces": ["red"], "quotas": [{"guaranteed": 1}]}
    namespace = {"metadata": {"name": "red", "uid": "n", "labels": {"a": "b"}}}
    for resource, document in (
        (QUEUES, queue | {"spec": spec}),
        (QUEUES, queue | {"spec": spec, "status": {"pending": 3}}),
        (NAMESPACES, namespace),
        (NAMESPACES, namespace),
        (QUEUES, queue | {"spec": spec | {"weight": 2}}),
    ):
        cache.put(resource, versioned(document, len(seen)))
        seen.append(cache.tenancy_revision)
    assert seen == [0, 1, 1, 2, 2, 3]


def test_a_restore_of_etcd_makes_everything_news() -> None:
    cache = ObjectCache(clock=lambda: T0)
    running = admitted(Phase.RUNNING, ("n1", 1)).to_document()
    cache.replace(TRAINING_JOBS, Listing((_job("train", 5_000, running), _job("later", 5_100, running)), 5_200))
    cache.replace(PODS, Listing((pod_document(0, version=5_050),), 5_200))
    for deleted in (False, True):
        cache.put(TRAINING_JOBS, _job("ended", 5_110 + deleted, running), deleted=deleted)
    cache.pop_changes()

    cache.replace(TRAINING_JOBS, Listing((_job("train", 2_900, {"phase": "Pending"}), _job("ended", 2_800)), 3_000))
    assert sorted(cache.jobs) == ["red/ended", "red/train"]
    assert (cache.jobs["red/train"].version, cache.jobs["red/train"].phase) == (2_900, Phase.PENDING)
    assert cache.pods.get("red/train-1-0") is not None
    cache.put(PODS, pod_document(0, version=3_001))
    known = cache.pods.get("red/train-1-0")
    assert known is not None
    assert known.version == 3_001
    cache.replace(PODS, Listing((), 3_002))
    assert cache.pods.get("red/train-1-0") is None


def test_lists_in_the_order_of_their_versions_are_of_one_history() -> None:
    cache = ObjectCache(clock=lambda: T0)
    cache.replace(TRAINING_JOBS, Listing((_job("train", 5_000),), 5_200))
    cache.put(TRAINING_JOBS, _job("train", 5_300))
    cache.replace(TRAINING_JOBS, Listing((_job("train", 5_000),), 5_200))
    assert cache.jobs["red/train"].version == 5_300


def _job(name: str, version: int, status: dict[str, Any] | None = None) -> dict[str, Any]:
    made = job_document(name, status)
    made["metadata"] |= {"resourceVersion": str(version), "uid": f"uid-{name}"}
    return made
