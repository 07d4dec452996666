"""Proposals of people as jobs of the core, and what is refused of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant.controller.query_api.proposals import (
    BOUNDS,
    CHANGES_MAX,
    MissingJobError,
    ProposalError,
    annotated_user,
    proposed_job,
    spec_of,
)
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
    with pytest.raises(ProposalError, match=says.replace("[", r"\[")):
        proposed(spec)


def test_a_job_that_is_not_there_is_missing() -> None:
    with pytest.raises(MissingJobError):
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
