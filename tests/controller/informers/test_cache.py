"""What is known of the cluster, whatever the order in which it was told. Pure: documents in, records out."""

from __future__ import annotations

import itertools
from typing import Any

from cotenant import names
from cotenant.controller.client.kube import QUEUES, TRAINING_JOBS, Document, Listing
from cotenant.controller.informers.cache import ObjectCache
from tests.controller.builders import job_document


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
