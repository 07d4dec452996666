"""What is known of the cluster, whatever the order in which it was told. Pure: documents in, records out."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from cotenant import contract, names
from cotenant.controller.client.kube import NODES, PODS, QUEUES, TRAINING_JOBS, Document, Listing
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.pod_record import Exit, read_pod
from tests.controller.builders import UID, exited, job_document, pod_document, terminated


def versioned(document: Document, version: int) -> Document:
    return document | {"metadata": document["metadata"] | {"resourceVersion": str(version)}}


def phase_of(mirror: ObjectCache) -> str:
    record = mirror.jobs.get("red/train")
    return str(record.status.phase) if record else "gone"


def test_the_newest_version_wins_in_every_order() -> None:
    told = [
        versioned(job_document(status={"phase": "Pending"}), 5),
        versioned(job_document(status={"phase": "Starting"}), 6),
        versioned(job_document(status={"phase": "Running"}), 7),
    ]
    for order in itertools.permutations(told):
        mirror = ObjectCache()
        for document in order:
            mirror.put(TRAINING_JOBS, document)
        assert phase_of(mirror) == "Running"


def test_what_was_deleted_does_not_come_back_by_a_late_answer() -> None:
    mirror = ObjectCache()
    mirror.put(TRAINING_JOBS, job_document())
    mirror.put(TRAINING_JOBS, versioned(job_document(), 9), deleted=True)
    mirror.put(TRAINING_JOBS, versioned(job_document(status={"phase": "Running"}), 8))
    assert phase_of(mirror) == "gone"


def test_a_namesake_that_came_later_is_another_job() -> None:
    mirror = ObjectCache()
    mirror.put(TRAINING_JOBS, versioned(job_document(status={"phase": "Running"}), 50))
    again = job_document()
    again["metadata"] |= {"uid": "another", "resourceVersion": "60"}
    mirror.put(TRAINING_JOBS, again)
    mirror.put(TRAINING_JOBS, versioned(job_document(), 61), deleted=True)
    assert mirror.jobs["red/train"].uid == "another"


def test_a_list_drops_what_is_missing_but_not_what_is_newer_than_itself() -> None:
    mirror = ObjectCache()
    mirror.put(TRAINING_JOBS, versioned(job_document("old"), 5) | {"metadata": _named("old", "u1", 5)})
    mirror.put(TRAINING_JOBS, job_document("new") | {"metadata": _named("new", "u2", 30)})
    mirror.replace(TRAINING_JOBS, Listing((), 20))
    assert set(mirror.jobs) == {"red/new"}


def _named(name: str, uid: str, version: int) -> dict[str, Any]:
    return {"name": name, "namespace": "red", "uid": uid, "resourceVersion": str(version)}


def test_a_repeated_document_is_no_news() -> None:
    woken: list[int] = []
    mirror = ObjectCache(lambda: woken.append(1))
    for _ in range(3):
        mirror.put(TRAINING_JOBS, job_document())
    assert len(woken) == 1


def test_a_job_that_cannot_be_read_keeps_its_status_and_says_what_is_wrong() -> None:
    mirror = ObjectCache()
    mirror.put(TRAINING_JOBS, job_document(status={"phase": "Running"}, gpu={"memoryFraction": "1.5"}))
    record = mirror.jobs["red/train"]
    assert (record.job, str(record.status.phase), "spec.gpu.memoryFraction" in record.problem) == (
        None,
        "Running",
        True,
    )


def test_pods_are_kept_by_the_job_that_owns_them() -> None:
    mirror = ObjectCache()
    mirror.put(PODS, pod_document(0))
    mirror.put(PODS, pod_document(1))
    mirror.put(PODS, pod_document(1, version=11), deleted=True)
    assert list(mirror.pods_of(UID)) == ["train-1-0"]


@pytest.mark.parametrize("forged", [{"ownerReferences": []}, {"labels": {names.LABEL_JOB_UID: UID}}], ids=str)
def test_a_pod_that_only_says_it_is_ours_is_not(forged: dict[str, Any]) -> None:
    document = pod_document()
    document["metadata"] |= forged
    assert read_pod(document).worker is None


def test_a_server_of_ours_takes_its_requests_from_its_node_as_no_placement_speaks_of_them() -> None:
    mirror = ObjectCache()
    ranks, server = pod_document(0), pod_document(1)
    server["metadata"]["labels"][names.LABEL_SERVER] = "0"
    del server["metadata"]["annotations"]
    for document in (ranks, server):
        mirror.put(PODS, document)
    assert (mirror.load["n1"].cpu_milli, mirror.load["n1"].memory_mib) == (2000, 1024)
    assert {one.worker.server for one in mirror.pods_of(UID).values() if one.worker} == {False, True}
    server["status"] = terminated(0)
    server["metadata"]["resourceVersion"] = "11"
    mirror.put(PODS, server)
    mirror.put(PODS, ranks, deleted=True)
    assert (mirror.load["n1"].cpu_milli, len(mirror.pods_of(UID))) == (0, 1)
    mirror.put(PODS, server, deleted=True)
    assert (mirror.load["n1"].cpu_milli, len(mirror.pods_of(UID))) == (0, 0)


def test_pods_of_others_take_their_requests_from_the_node_until_they_end() -> None:
    mirror = ObjectCache()
    foreign = pod_document()
    foreign["metadata"]["labels"] = {}
    loads = []
    for version, status in ((10, "Pending"), (11, "Running"), (12, "Succeeded")):
        mirror.put(PODS, versioned(foreign | {"status": {"phase": status}}, version))
        loads.append((mirror.load["n1"].cpu_milli, mirror.load["n1"].memory_mib))
    assert loads == [(2000, 1024), (2000, 1024), (0, 0)]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Running"}, None),
        (terminated(0), Exit(code=0, reason="Error", at=1767225630.0)),
        (
            terminated(3, message="boom", rank=1),
            Exit(
                code=3,
                reason="Error",
                at=1767225630.0,
                termination=contract.Termination(
                    node_rank=0, attempt=1, code=3, reason="UserError", message="boom", rank=1
                ),
            ),
        ),
        ({"phase": "Failed", "reason": "Evicted"}, Exit(code=-1, reason="Evicted")),
    ],
    ids=["still running", "without a word", "with the launcher's words", "evicted by the kubelet"],
)
def test_how_a_pod_ended(status: dict[str, Any], expected: Exit | None) -> None:
    assert read_pod(pod_document(status=status)).exit == expected
    assert exited(0).code == 0


@pytest.mark.parametrize(
    ("status", "waiting"),
    [
        (
            {
                "containerStatuses": [
                    {"name": "worker", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
                ]
            },
            "ErrImagePull: no",
        ),
        ({"containerStatuses": [{"name": "worker", "state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        (
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no cpu"}
                ]
            },
            "Unschedulable: no cpu",
        ),
    ],
    ids=["no image", "on its way", "no room"],
)
def test_why_a_pod_does_not_start(status: dict[str, Any], waiting: str) -> None:
    assert read_pod(pod_document(status={"phase": "Pending"} | status)).waiting == waiting


def test_a_queue_that_cannot_be_read_grants_nothing() -> None:
    mirror = ObjectCache()
    good = {
        "apiVersion": names.API_VERSION,
        "kind": "Queue",
        "metadata": {"name": "red", "uid": "q", "resourceVersion": "1"},
        "spec": {"quotas": [{"guaranteed": 4}]},
    }
    mirror.put(QUEUES, good)
    mirror.put(QUEUES, versioned(good | {"spec": {"weight": "heavy"}}, 2))
    assert mirror.queues == {}


def test_a_cordoned_node_is_not_a_dead_one() -> None:
    mirror = ObjectCache()
    node = {"metadata": {"name": "n1", "uid": "n", "resourceVersion": "1"}, "spec": {"unschedulable": True}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8", "memory": "16Gi"}}
    mirror.put(NODES, node | {"status": ready})
    assert (mirror.nodes["n1"].ready, mirror.unreachable) == (False, {})
    mirror.put(NODES, versioned(node | {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, 2))
    assert list(mirror.unreachable) == ["n1"]
