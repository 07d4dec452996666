"""Ending pods: each by its uid, and orphans only once the API server has confirmed that their job is gone."""

from __future__ import annotations

import pytest

from cotenant.controller.client.kube import PODS, TRAINING_JOBS, Outcome, Reply, UnreachableError
from cotenant.controller.execution.writes.pods.pod_deleter import PodDeleter
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.lifecycle.observation import EventToRecord, ForcedDeletion, ReconcileResult
from tests.controller.builders import UID, job_document, pod_document
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

JOB = JobId("red", "train", UID)


def two_pods() -> tuple[FakeKube, ObjectCache, PodDeleter]:
    """Two pods of the job that run, and no job."""
    kube, cache = FakeKube(), ObjectCache()
    for rank in range(2):
        kube.put(PODS, {"kind": "Pod", **pod_document(rank, status={"phase": "Running"})})
    kube.deliver(cache.put)
    return kube, cache, PodDeleter(kube=kube, cache=cache, max_grace_s=600)


def all_of(cache: ObjectCache) -> ReconcileResult:
    return ReconcileResult(delete_pods=tuple(cache.pods.of_job(JOB).values()))


def deleting(cache: ObjectCache) -> dict[str, bool]:
    return {name: pod.deleting for name, pod in cache.pods.of_job(JOB).items()}


async def test_what_was_asked_to_end_is_known_before_the_watch_says_so() -> None:
    _, cache, deleter = two_pods()
    await deleter.delete([cache.pods.of_job(JOB)["train-1-0"]])
    assert deleting(cache) == {"train-1-0": True, "train-1-1": False}


async def test_a_pod_that_is_gone_and_one_that_was_replaced_are_dropped_and_the_namesake_lives() -> None:
    kube, cache, deleter = two_pods()
    kube.remove(PODS, "train-1-0", "red")
    kube.remove(PODS, "train-1-1", "red")
    kube.put(PODS, pod_document(1, uid="namesake", status={"phase": "Running"}))
    await deleter.delete(cache.pods.of_job(JOB).values())
    found = kube.stored(PODS, "train-1-1", "red")
    assert found is not None
    assert ("deletionTimestamp" in found["metadata"], deleting(cache)) == (False, {})


async def test_one_call_that_fails_does_not_stop_the_others_and_is_raised() -> None:
    kube, cache, deleter = two_pods()
    kube.faults.add(Fault(call="DELETE pods/train-1-0", lost="request"))
    with pytest.raises(UnreachableError, match="DELETE pods/train-1-0"):
        await deleter.delete(cache.pods.of_job(JOB).values())
    assert deleting(cache) == {"train-1-0": False, "train-1-1": True}


async def test_orphans_are_ended_once_their_job_is_confirmed_to_be_gone() -> None:
    kube, cache, deleter = two_pods()
    await deleter.delete_orphans(JOB, all_of(cache))
    assert (kube.calls[0], deleting(cache)) == ("GET trainingjobs/train", {"train-1-0": True, "train-1-1": True})


async def test_orphans_of_a_job_that_has_a_namesake_are_ended_too() -> None:
    kube, cache, deleter = two_pods()
    document = job_document()
    document["metadata"]["uid"] = "namesake"
    kube.put(TRAINING_JOBS, document)
    await deleter.delete_orphans(JOB, all_of(cache))
    assert deleting(cache) == {"train-1-0": True, "train-1-1": True}


async def test_pods_whose_job_is_there_after_all_are_left_alone_and_it_is_known_again() -> None:
    kube, cache, deleter = two_pods()
    kube.put(TRAINING_JOBS, job_document())
    await deleter.delete_orphans(JOB, all_of(cache))
    assert (deleting(cache), list(cache.jobs)) == ({"train-1-0": False, "train-1-1": False}, ["red/train"])


async def test_nothing_is_ended_while_the_api_server_does_not_answer() -> None:
    kube, cache, deleter = two_pods()
    kube.faults.add(Fault(call="GET trainingjobs/*", lost="answer"))
    with pytest.raises(UnreachableError):
        await deleter.delete_orphans(JOB, all_of(cache))
    assert deleting(cache) == {"train-1-0": False, "train-1-1": False}


async def test_nothing_is_ended_if_the_api_server_may_not_say_whether_the_job_is_gone() -> None:
    kube, cache, deleter = two_pods()
    kube.faults.add(Fault(call="GET trainingjobs/*", answer=Reply(Outcome.REFUSED, message="forbidden", code=403)))
    refused = await deleter.delete_orphans(JOB, all_of(cache))
    assert refused == "the API server does not say whether job train is gone (403): forbidden"
    assert deleting(cache) == {"train-1-0": False, "train-1-1": False}


async def test_a_pod_with_a_huge_grace_period_is_asked_again_and_has_the_shorter_one() -> None:
    _, cache, deleter = two_pods()
    await deleter.delete(cache.pods.of_job(JOB).values(), grace_s=100_000_000)
    event = EventToRecord(reason="GracePeriodShortened", message="")
    again = ForcedDeletion(pods=(cache.pods.of_job(JOB)["train-1-0"],), grace_s=30, event=event)
    assert await deleter.carry_out(ReconcileResult(forced_deletions=(again,))) == ""
    given = {name: one.deletion.grace_s for name, one in cache.pods.of_job(JOB).items() if one.deletion}
    assert given == {"train-1-0": 30, "train-1-1": 100_000_000}


async def test_a_deletion_that_is_not_allowed_is_returned_as_a_sentence_and_the_others_are_made() -> None:
    kube, cache, deleter = two_pods()
    refusal = Reply(Outcome.REFUSED, message="denied by a policy", code=403)
    kube.faults.add(Fault(call="DELETE pods/train-1-0", answer=refusal))
    refused = await deleter.delete(cache.pods.of_job(JOB).values())
    assert refused == "pod train-1-0 could not be deleted (403): denied by a policy"
    assert deleting(cache) == {"train-1-0": False, "train-1-1": True}


async def test_a_pod_that_was_promised_more_than_is_allowed_now_has_what_is_allowed_from_the_first_request_on() -> None:
    kube, cache, deleter = two_pods()
    document = pod_document(0, status={"phase": "Running"})
    document["spec"]["terminationGracePeriodSeconds"] = 86_400
    kube.put(PODS, {"kind": "Pod", **document})
    kube.deliver(cache.put)
    await deleter.delete(cache.pods.of_job(JOB).values())
    given = {name: one.deletion.grace_s for name, one in cache.pods.of_job(JOB).items() if one.deletion}
    assert given == {"train-1-0": 600, "train-1-1": 30}


async def test_an_answer_without_the_pod_is_left_to_the_watch() -> None:
    kube, cache, deleter = two_pods()
    done = Reply(Outcome.DONE, {"kind": "Status", "status": "Success"}, code=200)
    kube.faults.add(Fault(call="DELETE pods/train-1-0", answer=done))
    assert await deleter.delete(cache.pods.of_job(JOB).values()) == ""
    assert deleting(cache) == {"train-1-0": False, "train-1-1": True}
