"""Pods by job and by node."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant import names
from cotenant.controller.client.kube import PODS, Document
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pods.departed_pods import HEARD_S
from tests.controller.builders import T0, UID, pod_document, terminated

JOB = JobId("red", "train", UID)


def versioned(document: Document, version: int) -> Document:
    return document | {"metadata": document["metadata"] | {"resourceVersion": str(version)}}


def test_pods_are_kept_by_the_job_that_owns_them() -> None:
    cache = ObjectCache()
    cache.put(PODS, pod_document(0))
    cache.put(PODS, pod_document(1))
    cache.put(PODS, pod_document(1, version=11), deleted=True)
    assert list(cache.pods.of_job(JOB)) == ["train-1-0"]


@pytest.mark.parametrize("kind", [{"server": True}, {"evaluator": True}], ids=["server", "evaluator"])
def test_a_pod_of_ours_without_ranks_takes_its_requests_from_its_node_as_no_placement_speaks_of_them(
    kind: dict[str, Any],
) -> None:
    cache = ObjectCache()
    ranks, server = pod_document(0), pod_document(1, **kind)
    for document in (ranks, server):
        cache.put(PODS, document)
    assert (cache.pods.load["n1"].cpu_milli, cache.pods.load["n1"].memory_mib) == (2000, 1024)
    assert len({one.role for one in cache.pods.of_job(JOB).values()}) == 2
    server["status"] = terminated(0)
    server["metadata"]["resourceVersion"] = "11"
    cache.put(PODS, server)
    cache.put(PODS, ranks, deleted=True)
    assert (cache.pods.load["n1"].cpu_milli, len(cache.pods.of_job(JOB))) == (0, 1)
    cache.put(PODS, server, deleted=True)
    assert (cache.pods.load["n1"].cpu_milli, len(cache.pods.of_job(JOB))) == (0, 0)


def test_a_pull_that_fails_after_minutes_is_stuck_from_then_on() -> None:
    """A registry that is busy for a moment does not end the start of a gang whose other images are there."""
    began, now = {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}, [T0]
    cache, seen = ObjectCache(clock=lambda: now[0]), []

    def status(reason: str) -> Document:
        container = {"name": names.CONTAINER, "state": {"waiting": {"reason": reason}}}
        return pod_document(status=began | {"containerStatuses": [container]})

    told = [(0, "ContainerCreating"), (240, "ErrImagePull"), (250, "ImagePullBackOff"), (260, "ContainerCreating")]
    for version, (after_s, reason) in enumerate([*told, (300, "ErrImagePull")]):
        now[0] = T0 + after_s
        cache.put(PODS, versioned(status(reason), 10 + version))
        seen.append(cache.pods.of_job(JOB)["train-1-0"].stuck_since - T0)
    assert seen == [0, 240, 240, 0, 300]


def test_a_pod_that_a_new_leader_finds_stuck_is_so_since_its_kubelet_has_it() -> None:
    waiting = {"name": names.CONTAINER, "state": {"waiting": {"reason": "ErrImagePull"}}}
    cache = ObjectCache(clock=lambda: T0 + 300)
    began = {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [waiting]}
    for version in (10, 11):
        cache.put(PODS, versioned(pod_document(status=began), version))
    assert cache.pods.of_job(JOB)["train-1-0"].stuck_since == T0


def test_pods_of_others_take_their_requests_from_the_node_until_they_end() -> None:
    cache = ObjectCache()
    foreign = pod_document()
    del foreign["spec"]["containers"][0]["env"]
    loads = []
    for version, status in ((10, "Pending"), (11, "Running"), (12, "Succeeded")):
        cache.put(PODS, versioned(foreign | {"status": {"phase": status}}, version))
        loads.append((cache.pods.load["n1"].cpu_milli, cache.pods.load["n1"].memory_mib))
    assert loads == [(2000, 1024), (2000, 1024), (0, 0)]


def test_the_same_pod_in_another_namespace_is_not_the_jobs_and_both_may_go() -> None:
    cache = ObjectCache()
    ours, theirs = pod_document(0), pod_document(0, uid="theirs")
    theirs["metadata"]["namespace"] = "blue"
    (contract,) = theirs["spec"]["containers"][0]["env"]
    contract["value"] = contract["value"].replace('"namespace":"red"', '"namespace":"blue"')
    for document in (ours, theirs):
        cache.put(PODS, document)
    of_job = [pod.uid for pod in cache.pods_of(JOB).values()]
    assert len(list(cache.pods.ours())) == 2
    for document in (theirs, ours):
        cache.put(PODS, versioned(document, 11), deleted=True)
    assert (of_job, list(cache.pods.ours())) == (["pod-1-0"], [])


def test_what_held_a_gpu_when_its_object_went_is_waited_for_from_then_on_by_the_clock_that_is_given() -> None:
    now = [T0]
    cache = ObjectCache(clock=lambda: now[0])
    cache.pods.departed.report("n1", (), T0)
    cache.put(PODS, pod_document(0))
    now[0] = T0 + 9
    cache.put(PODS, pod_document(0, version=11), deleted=True)
    held = []
    for after_s in (HEARD_S - 1, HEARD_S):
        cache.pods.departed.report("n1", (), T0 + 9 + after_s)
        held.append([pod.name for pod in cache.pods.holding(JOB)[1]])
    assert held == [["train-1-0"], []]


SEEN = st.tuples(
    st.sampled_from(["red", "blue"]),
    st.sampled_from(["train-1-0", "train-1-1"]),
    st.sampled_from(["uid-a", "uid-b", "uid-c"]),
    st.sampled_from([None, "not a status", terminated(0), {"containerStatuses": 7}]),
    st.booleans(),
)


@given(st.lists(SEEN, max_size=30))
def test_whatever_pods_come_and_go_in_whatever_order_those_of_a_job_are_the_ones_in_its_namespace(
    seen: list[tuple[str, str, str, Any, bool]],
) -> None:
    cache = ObjectCache()
    for version, (namespace, name, uid, status, deleted) in enumerate(seen, start=10):
        document = pod_document(0, uid=f"{namespace}-{name}-{uid}", version=version)
        document["metadata"] |= {"namespace": namespace, "name": name}
        cache.put(PODS, document | ({} if status is None else {"status": status}), deleted)
    for namespace in ("red", "blue"):
        found = cache.pods_of(JobId(namespace, "train", UID))
        assert {(pod.namespace, pod.name) for pod in found.values()} == {(namespace, name) for name in found}
    assert len(list(cache.pods.ours())) == sum(pod.worker is not None for pod in cache.pods._by_key.values())
