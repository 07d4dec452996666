"""What the last sight of a pod says of why it went."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.controller.client.kube import PODS, TRAINING_JOBS, Listing
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pods.deleted_pods import DeletedPods
from cotenant.controller.informers.pods.disruption import Disruption
from cotenant.controller.informers.pods.pod_record import read_pod
from tests.controller.builders import UID, job_document, pod_document, terminated

JOB = JobId("red", "train", UID)
DRAINED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


def with_job() -> ObjectCache:
    cache = ObjectCache()
    cache.put(TRAINING_JOBS, job_document())
    return cache


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        pytest.param({}, None, id="nobody was said to take it"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "PodDeleted", id="deleted"),
        pytest.param({"status": {"conditions": [DRAINED]}}, "Drained", id="drained, and gone at once"),
    ],
)
def test_the_last_that_is_seen_of_a_pod_says_who_took_it(last: dict[str, Any], reason: str | None) -> None:
    cache = with_job()
    cache.put(PODS, pod_document(0))
    document = pod_document(0, version=11)
    document["metadata"] |= last.get("metadata", {})
    document["status"] = {**document.get("status", {}), **last.get("status", {})}
    cache.put(PODS, document, deleted=True)
    found = cache.pods.deleted.disruptions_of(JOB).get("train-1-0")
    assert (found.reason if found else None) == reason


def test_a_newer_attempt_makes_the_departures_of_the_one_before_forgotten() -> None:
    pod = replace(read_pod(pod_document(0)), disruption=Disruption("Drained", "was drained"))
    assert pod.worker
    newer = replace(pod, name="train-2-0", worker=replace(pod.worker, attempt=2))
    deleted = DeletedPods()
    for one in (pod, newer, replace(pod, name="train-1-1")):
        deleted.record(one)
    assert list(deleted.disruptions_of(JOB)) == ["train-2-0"]
    deleted.forget(JOB)
    assert dict(deleted.disruptions_of(JOB)) == {}


def test_how_a_pod_ended_is_kept_when_it_goes() -> None:
    cache = with_job()
    cache.put(PODS, pod_document(0))
    cache.put(PODS, pod_document(0, version=11, status=terminated(143, message="asked to stop")), deleted=True)
    messages = [
        pod.exit.termination.message for pod in cache.pods.deleted.ended_of(JOB) if pod.exit and pod.exit.termination
    ]
    assert messages == ["asked to stop"]
    assert dict(cache.pods.deleted.disruptions_of(JOB)) == {}


def test_how_a_pod_ended_is_kept_when_a_list_lacks_it() -> None:
    cache = with_job()
    cache.put(PODS, pod_document(0, status=terminated(0)))
    cache.replace(PODS, Listing([], 99))
    assert [pod.exit.code for pod in cache.pods.deleted.ended_of(JOB) if pod.exit] == [0]


@pytest.mark.parametrize("listed", [False, True], ids=["by an event", "missing from a list"])
def test_nothing_is_kept_of_pods_that_go_after_their_job(listed: bool) -> None:
    """A job is deleted before its pods: what they tell would never be read, nor forgotten."""
    cache = with_job()
    cache.put(PODS, pod_document(0, status=terminated(0)))
    cache.put(TRAINING_JOBS, job_document(), deleted=True)
    if listed:
        cache.replace(PODS, Listing([], 99))
    else:
        cache.put(PODS, pod_document(0, version=11, status=terminated(0)), deleted=True)
    assert (cache.pods.deleted.ended_of(JOB), dict(cache.pods.deleted.disruptions_of(JOB))) == ((), {})
