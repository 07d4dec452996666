"""Jobs with profiles, from the watch to the status: resolved once, and by the profile as it was then."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import CLUSTER_PROFILES, PROFILES, TRAINING_JOBS, Resource
from cotenant.controller.informers.job_record import read_job
from tests.controller.builders import job_document
from tests.controller.execution.replica import Replica, phase, simulate_time, status
from tests.support.fake_kube import FakeKube

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


def submit(kube: FakeKube, **spec: Any) -> None:
    body = {"queue": "red", "profile": "pair", "runtime": {"entrypoint": "train:main"}, **spec}
    kind = {"apiVersion": names.API_VERSION, "kind": "TrainingJob"}
    kube.put(TRAINING_JOBS, {**kind, "metadata": {"name": "train", "namespace": "red"}, "spec": body})


def define(kube: FakeKube, resource: Resource = CLUSTER_PROFILES, name: str = "pair", **spec: Any) -> None:
    kind = "TrainingProfile" if resource == PROFILES else "ClusterTrainingProfile"
    there = {"namespace": "red"} if resource == PROFILES else {}
    known = kube.stored(resource, name, there.get("namespace", "")) or {}
    metadata = {**(known.get("metadata") or {}), "name": name, **there}
    kube.put(resource, {"apiVersion": names.API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})


PAIR: dict[str, Any] = {"workers": 2, "gpu": {"count": 1}}


async def test_a_job_has_what_its_profile_stands_for_and_its_status_says_so() -> None:
    replica = Replica()
    define(replica.kube, **PAIR)
    submit(replica.kube)
    await replica.run()
    assert (phase(replica.kube), status(replica.kube)["gpus"]) == ("Starting", "2 × 1")
    seen = status(replica.kube)["profile"]
    assert (seen["name"], seen["kind"], seen["spec"]["workers"]) == ("pair", "ClusterTrainingProfile", 2)


async def test_a_changed_profile_changes_no_accepted_job_nor_after_a_restart() -> None:
    replica = Replica()
    define(replica.kube, workers=64, gpu={"count": 1})
    submit(replica.kube)
    await replica.run()
    before = status(replica.kube)["profile"]
    define(replica.kube, **PAIR)
    await replica.run()
    assert (phase(replica.kube), status(replica.kube)["workers"]) == ("Pending", "64")
    other = Replica(replica.kube)
    await other.operator.feed.resync()
    await other.run()
    assert (status(other.kube)["workers"], status(other.kube)["profile"]) == ("64", before)


async def test_a_profile_that_comes_later_is_waited_for() -> None:
    replica = Replica()
    define(replica.kube, name="pairs", **PAIR)
    submit(replica.kube)
    await replica.run()
    waits = status(replica.kube)
    assert (waits["phase"], waits["reason"], waits["pending"]["reason"]) == (
        "Pending",
        "UnknownProfile",
        "UnknownProfile",
    )
    assert "write `spec.profile: pairs`" in waits["message"]
    define(replica.kube, PROFILES, **PAIR)
    await replica.run()
    assert (phase(replica.kube), status(replica.kube)["profile"]["kind"]) == ("Starting", "TrainingProfile")


async def test_what_breaks_a_bound_is_refused_until_the_job_or_the_profile_changes() -> None:
    replica = Replica()
    define(replica.kube, **PAIR, allowed={"workers": {"max": 2}})
    submit(replica.kube, workers=3)
    await replica.run()
    refused = status(replica.kube)
    assert (refused["phase"], refused["message"]) == (
        "Invalid",
        "spec.workers: 3 was given; the profile 'pair' allows 1 to 2",
    )
    define(replica.kube, **PAIR, allowed={"workers": {"max": 3}})
    await replica.run()
    assert (phase(replica.kube), status(replica.kube)["workers"]) == ("Starting", "3")


def test_what_was_seen_counts_before_it_is_written_and_for_the_same_job_alone() -> None:
    document = job_document(profile="pair")
    pinned = read_job(
        job_document(
            profile="pair",
            status={"profile": {"name": "pair", "kind": "TrainingProfile", "generation": 1, "spec": {"workers": 2}}},
        )
    )
    again = read_job(document, seen=pinned)
    assert (again.profile_unwritten, again.status.profile) == (True, pinned.status.profile)
    namesake = {**document, "metadata": {**document["metadata"], "uid": "another"}}
    assert read_job(namesake, seen=pinned).profile_missing
    assert read_job(job_document(profile="other"), seen=pinned).profile_missing
