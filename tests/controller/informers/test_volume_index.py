"""Claims, volumes and labels of nodes: jobs with claims are looked at again when their places may be others."""

from __future__ import annotations

import pytest

from cotenant.controller.client.kube import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    TRAINING_JOBS,
    Document,
    Resource,
)
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import Job
from tests.controller.builders import T0, job_document
from tests.controller.cluster.test_core_jobs import core_jobs_of

ZONE = "topology.kubernetes.io/zone"


def node(name: str, zone: str, version: int = 1) -> Document:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "labels": {ZONE: zone}}
    return {"metadata": metadata, "spec": {}, "status": {}}


def claim(volume: str = "disk", version: int = 1, *, namespace: str = "red", name: str = "data") -> Document:
    uid = f"uid-{namespace}-{name}"
    metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(version)}
    return {
        "metadata": metadata,
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": volume},
        "status": {"phase": "Bound"},
    }


def disk(zone: str = "b", version: int = 1, name: str = "disk") -> Document:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}


def namespace(selector: str, version: int = 1, name: str = "red") -> Document:
    annotations = {"openshift.io/node-selector": selector}
    return {
        "metadata": {
            "name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "annotations": annotations,
        },
    }  # fmt: skip


def mounting(name: str, namespace: str = "red", version: int = 5) -> Document:
    """A job that mounts the claim of this name."""
    mount = {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": name}}
    document = job_document(workers=1, runtime={"entrypoint": "train:main", "volumes": [mount]})
    of_it = {"namespace": namespace, "uid": f"uid-{namespace}-train", "resourceVersion": str(version)}
    return document | {"metadata": document["metadata"] | of_it}


class Watched:
    """The cache of a cluster with a job that mounts a claim, and the job as the core reads it."""

    def __init__(self) -> None:
        self.cache = ObjectCache()
        for resource, document in (
            (NODES, node("n1", "a")),
            (NODES, node("n2", "b")),
            (PERSISTENT_VOLUMES, disk()),
            (PERSISTENT_VOLUME_CLAIMS, claim()),
            (TRAINING_JOBS, mounting("data")),
        ):
            self.cache.put(resource, document)
        self.core_jobs = core_jobs_of(self.cache, JobMemories(), Settings())

    def job(self) -> Job:
        self.cache.pop_changes()
        job = self.core_jobs.job(self.cache.jobs["red/train"], T0)
        assert job is not None
        return job

    def nodes(self) -> set[str] | None:
        volumes = self.job().volumes
        return None if volumes is None or volumes.nodes is None else set(volumes.nodes)


Change = tuple[Resource, Document, bool]


@pytest.mark.parametrize(
    ("change", "nodes"),
    [
        pytest.param((NODES, node("n3", "b"), False), {"n2", "n3"}, id="a node joins"),
        pytest.param((NODES, node("n2", "c", 2), False), set(), id="a node gets other labels"),
        pytest.param((NODES, node("n2", "b"), True), set(), id="a node goes"),
        pytest.param((PERSISTENT_VOLUMES, disk("a", 2), False), {"n1"}, id="the volume is another"),
        pytest.param((PERSISTENT_VOLUMES, disk(), True), None, id="the volume goes"),
        pytest.param((PERSISTENT_VOLUME_CLAIMS, claim("other", 2), False), None, id="the claim is bound elsewhere"),
        pytest.param((PERSISTENT_VOLUME_CLAIMS, claim(), True), None, id="the claim goes"),
        pytest.param((NAMESPACES, namespace(f"{ZONE}=a"), False), set(), id="the namespace chooses other nodes"),
    ],
)
def test_a_job_with_a_claim_is_read_again_when_its_places_may_be_others(change: Change, nodes: set[str] | None) -> None:
    watched = Watched()
    assert watched.nodes() == {"n2"}
    watched.cache.put(*change)
    assert [job.key for job in watched.cache.pop_changes().jobs] == ["red/train"]
    assert watched.nodes() == nodes


@pytest.mark.parametrize(
    "same",
    [
        pytest.param((NODES, node("n2", "b", 2)), id="a node"),
        pytest.param((PERSISTENT_VOLUMES, disk("b", 2)), id="a volume"),
        pytest.param((PERSISTENT_VOLUME_CLAIMS, claim("disk", 2)), id="a claim"),
    ],
)
def test_what_changes_in_other_respects_has_no_job_read_again(same: tuple[Resource, Document]) -> None:
    watched = Watched()
    before = watched.job()
    watched.cache.put(*same)
    assert not watched.cache.pop_changes().jobs
    assert watched.job() is before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            (PERSISTENT_VOLUME_CLAIMS, claim("other", 2, namespace="blue", name="own"), False),
            {"blue/train"},
            id="its own claim",
        ),
        pytest.param((PERSISTENT_VOLUME_CLAIMS, claim(name="unused"), False), set(), id="a claim that nobody mounts"),
        pytest.param(
            (PERSISTENT_VOLUME_CLAIMS, claim(namespace="green"), False), set(), id="a namesake in another namespace"
        ),
        pytest.param((PERSISTENT_VOLUMES, disk("b", 2, "own"), False), {"blue/train"}, id="its own volume"),
        pytest.param((PERSISTENT_VOLUMES, disk(name="unused"), False), set(), id="a volume that no claim is bound to"),
        pytest.param((NAMESPACES, namespace("a=b", name="blue"), False), {"blue/train"}, id="its own namespace"),
        pytest.param((NAMESPACES, namespace("", name="blue"), False), set(), id="a namespace without a selector"),
        pytest.param((NODES, node("n9", "a"), False), {"blue/train"}, id="a node in the zone of its volume"),
        pytest.param((NODES, node("n9", "z"), False), set(), id="a node in a zone without volumes"),
        pytest.param((NODES, node("n1", "z", 2), False), {"blue/train"}, id="a node leaves the zone of its volume"),
    ],
)
def test_an_event_concerns_the_jobs_alone_whose_places_it_may_change(change: Change, told: set[str]) -> None:
    watched = Watched()  # red/train mounts claim data in zone b
    watched.cache.put(PERSISTENT_VOLUMES, disk("a", name="own"))
    watched.cache.put(PERSISTENT_VOLUME_CLAIMS, claim("own", namespace="blue", name="own"))
    watched.cache.put(TRAINING_JOBS, mounting("own", "blue"))
    for key in ("red/train", "blue/train"):
        watched.core_jobs.job(watched.cache.jobs[key], T0)
    watched.cache.pop_changes()
    resource, document, deleted = change
    watched.cache.put(resource, document, deleted)
    assert {job.key for job in watched.cache.pop_changes().jobs} == told


def test_a_job_that_mounts_another_claim_hears_of_that_one_and_a_job_that_is_gone_of_none() -> None:
    watched = Watched()
    other = mounting("new", version=7)
    watched.cache.put(TRAINING_JOBS, other)
    watched.cache.pop_changes()
    watched.cache.put(PERSISTENT_VOLUME_CLAIMS, claim("elsewhere", 2))
    assert not watched.cache.pop_changes().jobs
    watched.cache.put(PERSISTENT_VOLUME_CLAIMS, claim(name="new"))
    assert [job.key for job in watched.cache.pop_changes().jobs] == ["red/train"]
    watched.cache.put(TRAINING_JOBS, other, deleted=True)
    watched.cache.pop_changes()
    watched.cache.put(PERSISTENT_VOLUME_CLAIMS, claim("elsewhere", 3, name="new"))
    assert not watched.cache.pop_changes().jobs


def test_a_job_hears_of_a_node_after_a_volume_like_its_own_is_gone() -> None:
    watched = Watched()
    watched.cache.put(PERSISTENT_VOLUMES, disk(name="twin"))
    assert watched.nodes() == {"n2"}
    watched.cache.put(PERSISTENT_VOLUMES, disk(name="twin"), deleted=True)
    watched.cache.put(NODES, node("n3", "b"))
    assert [job.key for job in watched.cache.pop_changes().jobs] == ["red/train"]
    assert watched.nodes() == {"n2", "n3"}


def test_a_claim_of_one_node_keeps_all_pods_of_its_job_together() -> None:
    watched = Watched()
    (job,) = watched.cache.jobs.values()
    assert job.job is not None
    assert watched.cache.volumes.keeps_on_one_node("red", job.job.spec)
    assert not watched.cache.volumes.keeps_on_one_node("blue", job.job.spec)


def test_a_job_without_claims_lies_where_its_namespace_chooses() -> None:
    cache = ObjectCache()
    cache.put(NODES, node("n1", "a"))
    cache.put(NODES, node("n2", "b"))
    cache.put(TRAINING_JOBS, job_document(workers=1))
    jobs = core_jobs_of(cache, JobMemories(), Settings())

    def nodes() -> frozenset[str] | None:
        job = jobs.job(cache.jobs["red/train"], T0)
        assert job is not None
        return job.volumes.nodes if job.volumes else None

    assert nodes() is None
    told = []
    for resource, document, deleted in (
        (NAMESPACES, namespace(f"{ZONE}=a"), False),
        (NODES, node("n3", "a"), False),
        (NODES, node("n1", "b", 2), False),
        (NAMESPACES, namespace("", 2), False),
    ):
        cache.pop_changes()
        cache.put(resource, document, deleted)
        told.append(({job.key for job in cache.pop_changes().jobs}, nodes()))
    ours = {"red/train"}
    assert told == [(ours, {"n1"}), (ours, {"n1", "n3"}), (ours, {"n3"}), (ours, None)]
