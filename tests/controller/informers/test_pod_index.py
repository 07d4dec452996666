"""Pods by job and by node."""

from __future__ import annotations

from cotenant import names
from cotenant.controller.client.kube import PODS, Document
from cotenant.controller.informers.cache import ObjectCache
from tests.controller.builders import UID, pod_document, terminated


def versioned(document: Document, version: int) -> Document:
    return document | {"metadata": document["metadata"] | {"resourceVersion": str(version)}}


def test_pods_are_kept_by_the_job_that_owns_them() -> None:
    cache = ObjectCache()
    cache.put(PODS, pod_document(0))
    cache.put(PODS, pod_document(1))
    cache.put(PODS, pod_document(1, version=11), deleted=True)
    assert list(cache.pods.of_job(UID)) == ["train-1-0"]


def test_a_server_of_ours_takes_its_requests_from_its_node_as_no_placement_speaks_of_them() -> None:
    cache = ObjectCache()
    ranks, server = pod_document(0), pod_document(1)
    server["metadata"]["labels"][names.LABEL_SERVER] = "0"
    del server["metadata"]["annotations"]
    for document in (ranks, server):
        cache.put(PODS, document)
    assert (cache.pods.load["n1"].cpu_milli, cache.pods.load["n1"].memory_mib) == (2000, 1024)
    assert {one.worker.server for one in cache.pods.of_job(UID).values() if one.worker} == {False, True}
    server["status"] = terminated(0)
    server["metadata"]["resourceVersion"] = "11"
    cache.put(PODS, server)
    cache.put(PODS, ranks, deleted=True)
    assert (cache.pods.load["n1"].cpu_milli, len(cache.pods.of_job(UID))) == (0, 1)
    cache.put(PODS, server, deleted=True)
    assert (cache.pods.load["n1"].cpu_milli, len(cache.pods.of_job(UID))) == (0, 0)


def test_pods_of_others_take_their_requests_from_the_node_until_they_end() -> None:
    cache = ObjectCache()
    foreign = pod_document()
    foreign["metadata"]["labels"] = {}
    loads = []
    for version, status in ((10, "Pending"), (11, "Running"), (12, "Succeeded")):
        cache.put(PODS, versioned(foreign | {"status": {"phase": status}}, version))
        loads.append((cache.pods.load["n1"].cpu_milli, cache.pods.load["n1"].memory_mib))
    assert loads == [(2000, 1024), (2000, 1024), (0, 0)]
