"""Jobs that no decision is made about, and what brings them back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.controller.client.kube import TRAINING_JOBS
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.query_api.jobs.aside import aside_status, elsewhere, jobs_aside
from tests.controller.execution.replica import new_kube, submit

QUARANTINED = {
    "type": "Quarantined",
    "status": "True",
    "reason": "SchedulingFailed",
    "message": "no decision can be made",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
ASKS = "2 workers × 1 GPU"


def cache_with(name: str, spec: dict[str, Any], status: dict[str, Any]) -> ObjectCache:
    document = submit(new_kube(), name=name, workers=2)
    cache = ObjectCache()
    cache.put(TRAINING_JOBS, document | {"spec": document["spec"] | spec, "status": status})
    return cache


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        (
            {"suspend": True},
            {"phase": "Suspended", "reason": "Suspended", "message": "spec.suspend is true"},
            {
                "standing": "Suspended",
                "asks": ASKS,
                "reason": "Suspended",
                "message": "spec.suspend is true",
                "returnsIf": "spec.suspend is false: kubectl cotenant resume red/aside",
                "change": {"spec.suspend": False},
                "needsChange": True,
            },
        ),
        (
            {},
            {"phase": "Pending", "reason": "Quarantined", "message": "it fails", "conditions": [QUARANTINED]},
            {
                "standing": "Quarantined",
                "asks": ASKS,
                "reason": "Quarantined",
                "message": "it fails",
                "returnsIf": "the operator's next try works: it tries by itself, and soon after an edit",
                "needsChange": False,
            },
        ),
        (
            {"workers": "many"},
            {"phase": "Invalid", "reason": "Invalid"},
            {
                "standing": "Invalid",
                "reason": "Invalid",
                "message": 'spec.workers: must be a whole number, not "many"',
                "returnsIf": "its spec is mended",
                "needsChange": True,
            },
        ),
    ],
    ids=["suspended", "quarantined", "invalid"],
)
def test_a_job_that_is_set_aside_says_why_and_what_brings_it_back(
    spec: dict[str, Any], status: dict[str, Any], expected: dict[str, Any]
) -> None:
    cache = cache_with("aside", spec, status)
    (record,) = jobs_aside(cache, "", {})
    found = aside_status(record, {})
    found.pop("submittedAt", None)
    assert found == expected | {"queue": "red"}


@pytest.mark.parametrize("phase", ["Pending", "Running", "Evicting", "Succeeded", "Failed"])
def test_a_job_that_is_over_or_has_just_come_is_not_set_aside(phase: str) -> None:
    assert list(jobs_aside(cache_with("job", {}, {"phase": phase}), "", {})) == []


@pytest.mark.parametrize(
    ("namespace", "decided", "found"), [("", {}, 1), ("red", {}, 1), ("blue", {}, 0), ("", {"red/aside": None}, 0)]
)
def test_jobs_of_others_and_jobs_that_were_decided_on_are_left_out(
    namespace: str, decided: dict[str, None], found: int
) -> None:
    cache = cache_with("aside", {"suspend": True}, {"phase": "Suspended"})
    assert len(list(jobs_aside(cache, namespace, decided))) == found


AWAY = {"name": "west", "namespace": "red", "job": "aside-1", "since": "2026-01-01T00:00:00Z", "message": "no GPUs"}


def test_a_job_that_runs_on_another_cluster_says_where() -> None:
    message = "on cluster west: 2 workers running in 1 pod"
    cache = cache_with("aside", {}, {"phase": "Running", "message": message, "cluster": AWAY})
    (record,) = jobs_aside(cache, "red", {})
    status = aside_status(record, {})
    assert (status["standing"], status["message"]) == ("Away", message)


def test_a_job_in_line_here_says_what_it_waits_for_on_another_cluster_or_why_it_is_not_there() -> None:
    there = cache_with("aside", {}, {"phase": "Pending", "cluster": AWAY}).jobs["red/aside"]
    stays = {"type": "Spillover", "status": "False", "reason": "StaysHere", "message": "the job is not handed over"}
    here = cache_with(
        "aside", {}, {"phase": "Pending", "conditions": [stays | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    ).jobs["red/aside"]
    plain = cache_with("aside", {}, {"phase": "Pending"}).jobs["red/aside"]
    assert elsewhere(there) == {"elsewhere": "It is also in line on cluster west: no GPUs"}
    assert elsewhere(here) == {"elsewhere": "the job is not handed over"}
    assert (elsewhere(plain), elsewhere(None)) == ({}, {})


def test_the_job_of_a_session_goes_on_by_the_session() -> None:
    cache = cache_with("aside", {"suspend": True}, {"phase": "Suspended"})
    [record] = cache.jobs.values()
    owner = {"apiVersion": "cotenant.dev/v1beta1", "kind": "Session", "name": "nb", "uid": "s", "controller": True}
    assert record.job is not None
    metadata = record.job.metadata.model_copy(update={"owner_references": (owner,)})
    owned = replace(record, job=record.job.model_copy(update={"metadata": metadata}))
    told = [aside_status(one, {})["returnsIf"].partition("kubectl cotenant ")[2] for one in (record, owned)]
    assert told == ["resume red/aside", "session resume red/nb"]
