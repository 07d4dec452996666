"""Proposals of people as jobs of the core, and what is refused of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant.controller.client.kube import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, TRAINING_JOBS
from cotenant.controller.query_api.proposals import (
    BOUNDS,
    CHANGES_MAX,
    ProposalError,
    annotated_user,
    proposed_job,
    spec_of,
)
from cotenant.controller.query_api.questions import NotFoundError
from cotenant.core.model.objects import Job
from tests.controller.execution.replica import Replica, submit

MANIFEST: dict[str, Any] = {
    "apiVersion": "cotenant.dev/v1beta1",
    "kind": "TrainingJob",
    "metadata": {"name": "new", "annotations": {"cotenant.dev/user": "somebody else"}},
    "spec": {"queue": "red", "gpu": {"count": 2}, "runtime": {"entrypoint": "train:main"}},
    "status": {"phase": "Running"},
}


def proposed(spec: dict[str, Any], namespace: str = "red") -> Job:
    replica = Replica()
    submit(replica.kube, "waits", workers=3)
    submit(replica.kube, "runs", workers=1)
    replica.observe()
    return proposed_job(
        spec, namespace, user="alice", cache=replica.operator.cache, reserve_mib=768, now=1_700_000_000.0
    )


def test_a_manifest_is_a_job_that_its_asker_submits_now() -> None:
    job = proposed({"manifest": MANIFEST})
    assert (job.key, job.user, job.submitted_at, job.placement) == ("red/new", "alice", 1_700_000_000.0, None)
    assert (job.gpu.count, job.memory_mib) == (2, proposed({"job": "waits"}).memory_mib)


def test_a_change_is_written_over_the_spec_of_the_job_that_waits() -> None:
    before = proposed({"job": "waits"})
    job = proposed({"job": "waits", "change": {"spec.workers": 2, "spec.gpu.zones": ["east"], "spec.priority": None}})
    assert (before.workers_min, job.workers_min, job.gpu.zones) == (3, 2, ("east",))
    assert (job.uid, job.submitted_at) == (before.uid, before.submitted_at)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({}, "spec.manifest is no TrainingJob"),
        ({"manifest": {"kind": "Pod"}}, "spec.manifest is no TrainingJob"),
        ({"manifest": MANIFEST | {"metadata": {"name": "x", "namespace": "blue"}}}, "is of namespace 'blue'"),
        ({"manifest": MANIFEST | {"spec": {}}}, "spec.gpu"),
        ({"manifest": MANIFEST | {"metadata": []}}, ""),
        ({"job": "nobody"}, "not found"),
        ({"job": "waits", "change": {"spec.gpu.count": "many"}}, "spec.gpu.count"),
        ({"job": "waits", "change": {"metadata.name": "x"}}, "no field of a job's spec"),
        ({"job": "waits", "change": {"spec.": 1}}, "no field of a job's spec"),
        ({"job": "waits", "change": {"spec.queue.name": "x"}}, "queue has no fields"),
        ({"job": "waits", "change": [1]}, "must be an object"),
        ({"job": "waits", "change": {f"spec.a{n}": 1 for n in range(CHANGES_MAX + 1)}}, "must be an object of at most"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(spec: dict[str, Any], says: str) -> None:
    if not says:
        assert proposed(spec).key == "red/proposed"
        return
    with pytest.raises((ProposalError, NotFoundError), match=says.replace("[", r"\[")):
        proposed(spec)


DISK = {
    "name": "data",
    "mountPath": "/data",
    "persistentVolumeClaim": {"claimName": "disk"},
}


def mounting(workers: int = 1) -> dict[str, Any]:
    spec = MANIFEST["spec"] | {"workers": workers, "runtime": {"entrypoint": "train:main", "volumes": [DISK]}}
    return {"manifest": MANIFEST | {"spec": spec}}


def with_disk(*modes: str) -> Replica:
    """A replica that knows of a claim `disk`, which is bound to a volume on node n1."""
    replica = Replica()
    replica.observe()
    hosts = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}}
    metadata = {"uid": "u", "resourceVersion": "5"}
    for name in ("n1", "n2"):
        replica.operator.cache.volumes.put_node(name, {"kubernetes.io/hostname": name})
    for resource, document in (
        (PERSISTENT_VOLUMES, {"metadata": metadata | {"name": "pv"}, "spec": {"nodeAffinity": affinity}}),
        (
            PERSISTENT_VOLUME_CLAIMS,
            {
                "metadata": metadata | {"name": "disk", "namespace": "red"},
                "spec": {"accessModes": list(modes), "volumeName": "pv"},
            },
        ),
    ):
        replica.operator.cache.put(resource, document)
    return replica


def asked(replica: Replica, spec: dict[str, Any]) -> Job:
    return proposed_job(spec, "red", user="alice", cache=replica.operator.cache, reserve_mib=0, now=1_700_000_000.0)


def test_a_proposal_is_placed_only_where_its_claims_can_be_mounted() -> None:
    volumes = asked(with_disk("ReadWriteMany"), mounting()).volumes
    assert volumes is not None
    assert volumes.nodes == frozenset({"n1"})


def test_a_proposal_that_no_placement_can_mount_is_refused_as_the_job_would_be() -> None:
    with pytest.raises(ProposalError, match="disk"):
        asked(with_disk("ReadWriteOncePod"), mounting(workers=2))


@pytest.mark.parametrize(
    ("change", "avoided"),
    [({}, {"n1", "n3"}), ({"spec.workers": 3}, {"n1", "n3"}), ({"spec.runtime.image": "another"}, {"n1"})],
    ids=["as it is", "a change that changes nothing", "an edit may name an image for the processors of n3"],
)
def test_a_change_of_a_waiting_job_avoids_the_nodes_that_the_job_would_avoid(
    change: dict[str, Any], avoided: set[str]
) -> None:
    replica = Replica()
    document = submit(replica.kube, "waits", workers=3)
    later = "2023-11-15T00:00:00Z"
    excluded = [
        {"node": "n1", "until": later, "reason": "PodRefused"},
        {"node": "n2", "until": "2023-11-14T00:00:00Z"},
        {"node": "n3", "until": later, "reason": "ImageForOtherProcessors: no match for platform"},
    ]
    start = {"attempts": 1, "attempt": 1, "retryAt": later, "generation": document["metadata"].get("generation", 0)}
    replica.kube.put(TRAINING_JOBS, document | {"status": {"excludedNodes": excluded, "blockedStart": start}})
    replica.observe()
    assert asked(replica, {"job": "waits", "change": change}).excluded_nodes == avoided


def test_a_job_that_is_not_there_is_missing() -> None:
    with pytest.raises(NotFoundError):
        proposed({"job": "nobody"})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "the question "),
        (b"[]", "has no spec"),
        (json.dumps({"spec": 3}).encode(), "has no spec"),
        (b"[" * 40 + b"]" * 40, "the question "),
        (b" " * (BOUNDS.bytes_max + 1), "longer than"),
    ],
)
def test_a_body_that_is_no_question_is_refused_before_it_costs_anything(body: bytes, says: str) -> None:
    with pytest.raises(ProposalError, match=says):
        spec_of(body)


@pytest.mark.parametrize(
    ("user", "annotated"),
    [("alice", "alice"), ("system:serviceaccount:red:ci", "system:serviceaccount:red:*")],
)
def test_accounts_of_a_namespace_are_one_user(user: str, annotated: str) -> None:
    assert annotated_user(user) == annotated
