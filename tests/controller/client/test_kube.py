"""What the controller relies on of an API server: the double of the tests keeps these promises as the real one does."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import (
    PODS,
    TRAINING_JOBS,
    Document,
    Kube,
    Outcome,
    Reply,
    Resource,
    version_of,
)
from tests.support.fake_kube import FakeKube

NAMESPACE = "promises"
CONFIG_MAPS = Resource("", "v1", "configmaps")
NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
async def kube() -> Kube:
    """An empty namespace `promises`; `tests/live` has the same tests on a real API server."""
    return FakeKube()


def config_map(name: str = "one", **metadata: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"a": "1", "b": "1"},
    }


def pod(name: str = "one", **spec: Any) -> Document:
    user = {"runAsNonRoot": True, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}}
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "c", "image": "example.com/none:1", "securityContext": confined}
    body = {"securityContext": user, "automountServiceAccountToken": False, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def training_job() -> Document:
    spec = {"queue": "none", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}}
    return {"apiVersion": names.API_VERSION, "kind": "TrainingJob", "metadata": {"name": "one"}, "spec": spec}


async def changed(kube: Kube, body: Document, resource: Resource = CONFIG_MAPS, **options: Any) -> Reply:
    return await kube.patch(resource, "one", body, namespace=NAMESPACE, **options)


async def test_what_is_made_has_a_uid_and_a_version_and_its_name_is_taken(kube: Kube) -> None:
    made = await kube.create(CONFIG_MAPS, config_map(), NAMESPACE)
    again = await kube.create(CONFIG_MAPS, config_map(), NAMESPACE)
    metadata = made.document["metadata"]
    assert (made.outcome, metadata["namespace"], bool(metadata["uid"]), version_of(made.document) > 0) == (
        Outcome.DONE,
        NAMESPACE,
        True,
        True,
    )
    assert (again.outcome, again.code) == (Outcome.EXISTS, 409)


async def test_what_makes_no_sense_is_refused_and_what_is_not_there_is_missing(kube: Kube) -> None:
    nonsense = await kube.create(CONFIG_MAPS, config_map("NOT A NAME"), NAMESPACE)
    replies = [
        await kube.get(CONFIG_MAPS, "one", NAMESPACE),
        await changed(kube, {"data": {}}),
        await kube.delete(CONFIG_MAPS, "one", NAMESPACE),
    ]
    assert (nonsense.outcome, nonsense.code) == (Outcome.REFUSED, 422)
    assert [(reply.outcome, reply.code) for reply in replies] == [(Outcome.MISSING, 404)] * 3


async def test_a_patch_merges_and_null_removes(kube: Kube) -> None:
    await kube.create(CONFIG_MAPS, config_map(labels={"x": "1"}), NAMESPACE)
    reply = await changed(kube, {"data": {"a": None, "c": "2"}, "metadata": {"annotations": {"y": "1"}}})
    metadata = reply.document["metadata"]
    assert (reply.document["data"], metadata["labels"], metadata["annotations"]) == (
        {"b": "1", "c": "2"},
        {"x": "1"},
        {"y": "1"},
    )


async def test_every_change_is_a_newer_version_and_no_change_is_none(kube: Kube) -> None:
    made = await kube.create(CONFIG_MAPS, config_map(), NAMESPACE)
    same = await changed(kube, {"data": {"a": "1"}})
    other = await changed(kube, {"data": {"a": "2"}})
    listing = await kube.list(CONFIG_MAPS, NAMESPACE)
    assert version_of(made.document) == version_of(same.document) < version_of(other.document) <= listing.version


async def test_a_patch_that_was_guarded_with_a_stale_version_or_another_uid_changes_nothing(kube: Kube) -> None:
    made = await kube.create(CONFIG_MAPS, config_map(), NAMESPACE)
    guard = {"resourceVersion": made.document["metadata"]["resourceVersion"], "uid": made.document["metadata"]["uid"]}
    first = await changed(kube, {"metadata": guard, "data": {"a": "first"}})
    stale = await changed(kube, {"metadata": guard, "data": {"a": "second"}})
    namesake = await changed(kube, {"metadata": guard | {"uid": NOBODY}, "data": {"a": "third"}})
    unguarded = await changed(kube, {"metadata": {"uid": NOBODY}, "data": {"a": "fourth"}})
    found = await kube.get(CONFIG_MAPS, "one", NAMESPACE)
    replies = (first, stale, namesake, unguarded)
    assert [reply.code for reply in replies] == [200, 409, 409, 422]
    assert [reply.outcome for reply in replies[:3]] == [Outcome.DONE, Outcome.CONFLICT, Outcome.CONFLICT]
    assert found.document["data"]["a"] == "first"


async def test_only_its_subresource_writes_a_status_and_only_a_spec_is_a_new_generation(kube: Kube) -> None:
    body = training_job() | {"status": {"message": "by create"}}
    made = await kube.create(TRAINING_JOBS, body, NAMESPACE)
    spec = {"spec": {"suspend": True}, "status": {"message": "by the main resource"}}
    suspended = await changed(kube, spec, TRAINING_JOBS)
    written = await changed(
        kube, {"spec": {"suspend": False}, "status": {"message": "m"}}, TRAINING_JOBS, subresource="status"
    )
    assert [
        (
            reply.document.get("status"),
            reply.document["spec"].get("suspend", False),
            reply.document["metadata"]["generation"],
        )
        for reply in (made, suspended, written)
    ] == [(None, False, 1), (None, True, 2), ({"message": "m"}, True, 2)]


async def test_what_has_changed_is_not_deleted_by_who_has_seen_an_earlier_version(kube: Kube) -> None:
    metadata = (await kube.create(CONFIG_MAPS, config_map(), NAMESPACE)).document["metadata"]
    seen = int(metadata["resourceVersion"])
    await changed(kube, {"data": {"a": "second"}})
    spared = await kube.delete(CONFIG_MAPS, "one", NAMESPACE, uid=metadata["uid"], version=seen)
    now = version_of((await kube.get(CONFIG_MAPS, "one", NAMESPACE)).document)
    gone = await kube.delete(CONFIG_MAPS, "one", NAMESPACE, uid=metadata["uid"], version=now)
    assert (spared.outcome, gone.outcome) == (Outcome.CONFLICT, Outcome.DONE)


async def test_what_is_deleted_is_gone_and_a_namesake_has_another_uid(kube: Kube) -> None:
    uid = (await kube.create(CONFIG_MAPS, config_map(), NAMESPACE)).document["metadata"]["uid"]
    gone = await kube.delete(CONFIG_MAPS, "one", NAMESPACE, uid=uid)
    absent = await kube.get(CONFIG_MAPS, "one", NAMESPACE)
    namesake = await kube.create(CONFIG_MAPS, config_map(), NAMESPACE)
    spared = await kube.delete(CONFIG_MAPS, "one", NAMESPACE, uid=uid)
    assert [reply.outcome for reply in (gone, absent, namesake, spared)] == [
        Outcome.DONE,
        Outcome.MISSING,
        Outcome.DONE,
        Outcome.CONFLICT,
    ]
    assert namesake.document["metadata"]["uid"] != uid


async def test_a_pod_on_a_node_is_removed_by_its_kubelet_or_without_grace(kube: Kube) -> None:
    await kube.create(PODS, pod(nodeName="played"), NAMESPACE)
    asked = await kube.delete(PODS, "one", NAMESPACE)
    again = await kube.delete(PODS, "one", NAMESPACE)
    there = await kube.get(PODS, "one", NAMESPACE)
    await kube.delete(PODS, "one", NAMESPACE, grace_s=0)
    gone = await kube.get(PODS, "one", NAMESPACE)
    assert [(reply.outcome, "deletionTimestamp" in reply.document["metadata"]) for reply in (asked, again, there)] == [
        (Outcome.DONE, True)
    ] * 3
    assert gone.outcome is Outcome.MISSING


async def test_a_pod_that_was_asked_to_end_can_be_given_less_time_and_never_more(kube: Kube) -> None:
    await kube.create(PODS, pod(nodeName="played"), NAMESPACE)
    given = []
    for grace_s in (100_000_000, 30, 40, None, 1):
        await kube.delete(PODS, "one", NAMESPACE, grace_s=grace_s)
        found = (await kube.get(PODS, "one", NAMESPACE)).document["metadata"]
        asked_at = datetime.fromisoformat(found["deletionTimestamp"]).timestamp() - found["deletionGracePeriodSeconds"]
        given.append((found["deletionGracePeriodSeconds"], asked_at))
    first = given[0][1]
    assert given == [(100_000_000, first), (30, first), (30, first), (30, first), (1, first)]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_is_removed_at_once(kube: Kube, phase: str) -> None:
    await kube.create(PODS, pod(nodeName="played"), NAMESPACE)
    await changed(kube, {"status": {"phase": phase}}, PODS, subresource="status")
    asked = await kube.delete(PODS, "one", NAMESPACE)
    gone = await kube.get(PODS, "one", NAMESPACE)
    assert (asked.document["kind"], gone.outcome) == ("Pod", Outcome.MISSING)


async def test_a_pod_without_a_node_is_removed_at_once(kube: Kube) -> None:
    gates = [{"name": "example.com/never"}]
    made = await kube.create(PODS, pod(schedulingGates=gates), NAMESPACE)
    await kube.delete(PODS, "one", NAMESPACE)
    gone = await kube.get(PODS, "one", NAMESPACE)
    assert (made.document["status"]["phase"], gone.outcome) == ("Pending", Outcome.MISSING)


async def test_a_list_has_what_is_in_the_namespace_and_has_the_labels(kube: Kube) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "1", "y": "1"}), ("c", {})):
        await kube.create(CONFIG_MAPS, config_map(name, labels=labels), NAMESPACE)

    async def names(namespace: str, labels: str) -> list[str]:
        found = await kube.list(CONFIG_MAPS, namespace, labels)
        return [one["metadata"]["name"] for one in found.items if not one["metadata"]["name"].startswith("kube-root")]

    assert [await names(NAMESPACE, labels) for labels in ("", "x=1", "x=1,y=1", "x=2")] == [
        ["a", "b", "c"],
        ["a", "b"],
        ["b"],
        [],
    ]
    assert await names("elsewhere", "") == []


def test_a_name_is_one_part_of_an_address() -> None:
    assert TRAINING_JOBS.path("red", "train", "status").endswith("/namespaces/red/trainingjobs/train/status")
    assert TRAINING_JOBS.path("red", "../../x?watch=1").endswith("/namespaces/red/trainingjobs/..%2F..%2Fx%3Fwatch%3D1")
