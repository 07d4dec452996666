"""Jobs that are handed to another cluster, by two whole operators: mirrored back, fetched back, lost and found."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import PODS, QUEUES, REMOTE_CLUSTERS, SECRETS, TRAINING_JOBS, Outcome, Reply
from cotenant.controller.composites.remote_clusters.keeper import STRAYS_MAX
from tests.controller.composites.remote_clusters.two_clusters import SYSTEM, TwoClusters, forward, secret
from tests.controller.execution.replica import simulate_time, submit
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


async def with_a_job_there(**settings: Any) -> TwoClusters:
    """`big` has all GPUs here, and `train` is on the other cluster, where it runs."""
    two = TwoClusters(**settings)
    submit(two.here.kube, "big")
    await two.both()
    submit(two.here.kube, "train")
    await two.settle()
    assert two.status("big")["phase"] == "Running"
    return two


async def test_a_job_for_which_there_is_no_place_here_runs_there_and_is_mirrored_back() -> None:
    two = await with_a_job_there()
    status, mirror = two.status(), two.mirror()
    assert (status["phase"], status["cluster"]["name"], status["cluster"]["phase"]) == ("Running", "there", "Running")
    assert status["message"].startswith("on cluster there: 4 workers running")
    assert status["cluster"]["job"] == mirror["metadata"]["name"]
    assert "placement" not in status
    assert mirror["metadata"]["labels"][names.LABEL_ORIGIN_JOB] == two.job()["metadata"]["uid"]
    assert (mirror["spec"]["suspend"], mirror["spec"]["queue"]) == (False, "red")
    assert (two.remote()["reachable"], two.remote()["jobs"], two.remote()["running"]) == ("True", 1, 1)


async def test_a_job_stays_here_until_it_has_waited_for_as_long_as_its_queue_says() -> None:
    two = TwoClusters(after="10m")
    submit(two.here.kube, "big")
    await two.both()
    created = "2026-01-01T00:00:02Z"
    submit(two.here.kube, "train", creationTimestamp=created)
    await two.settle(2)
    assert ("cluster" in two.status(), two.mirrors()) == (False, [])
    await forward(600)
    await two.settle(2)
    assert two.status()["cluster"]["name"] == "there"


async def test_what_a_job_came_to_there_is_its_result_here() -> None:
    two = await with_a_job_there()
    mirror = two.mirror()
    ended = {"phase": "Succeeded", "reason": "Completed", "message": "rank 0 ended", "results": {"loss": 0.5}}
    two.there.kube.put(TRAINING_JOBS, mirror | {"status": ended})
    await two.look()
    status = two.status()
    assert (status["phase"], status["results"], status["cluster"]["phase"]) == ("Succeeded", {"loss": 0.5}, "Succeeded")
    assert two.condition("Complete")["status"] == "True"


async def test_a_job_that_is_deleted_here_is_ended_there() -> None:
    two = await with_a_job_there()
    two.here.kube.remove(TRAINING_JOBS, "train", "red")
    await two.look()
    assert two.mirrors() == []


async def test_who_labels_jobs_there_as_ours_holds_nobody_up() -> None:
    two = await with_a_job_there()
    labels, mirror = two.mirror()["metadata"]["labels"], two.mirror()["metadata"]["name"]
    for number in range(STRAYS_MAX + 5):
        annotations = {names.ANNOTATION_ORIGIN: "../x" if number < 5 else f"red/gone-{number}"}
        metadata = {"name": f"ours-{number}", "namespace": "blue", "labels": labels, "annotations": annotations}
        two.there.kube.put(TRAINING_JOBS, {"metadata": metadata | {"uid": f"u{number}"}, "spec": {}})
    two.here.kube.calls.clear()
    await two.look()
    asked = [call for call in two.here.kube.calls if call.startswith("GET trainingjobs/")]
    assert len(asked) == STRAYS_MAX
    assert {one["metadata"]["name"] for one in two.mirrors()} == {mirror, *(f"ours-{number}" for number in range(5))}
    assert two.remote()["reachable"] == "True"


async def test_a_leader_that_has_not_seen_a_handover_yet_ends_nothing_there() -> None:
    two = await with_a_job_there()
    two.crash()
    await two.here.operator.feed.resync()
    cache = two.here.operator.cache
    record = cache.jobs["red/train"]
    cache.jobs["red/train"] = replace(record, status=record.status.model_copy(update={"cluster": None}))
    await two.keeper.look()
    assert two.mirror()["status"]["phase"] == "Running"


async def test_a_job_that_is_suspended_here_leaves_the_other_cluster_and_waits_here_when_it_is_resumed() -> None:
    two = await with_a_job_there()
    two.edit(two.here.kube, "train", suspend=True)
    await two.look()
    assert two.mirror()["spec"]["suspend"] is True
    assert two.status()["cluster"]["returning"] == "spec.suspend was set"
    await two.settle()
    assert (two.mirrors(), two.status()["phase"], "cluster" in two.status()) == ([], "Suspended", False)
    two.edit(two.here.kube, "train", suspend=False)
    await two.both()
    assert two.status()["phase"] == "Pending"


async def test_a_job_in_line_on_both_clusters_starts_here_when_a_place_is_free_here_first() -> None:
    two = TwoClusters()
    submit(two.here.kube, "big")
    submit(two.there.kube, "theirs")
    await two.both()
    submit(two.here.kube, "train")
    await two.settle(2)
    assert (two.status()["phase"], two.status()["cluster"]["phase"]) == ("Pending", "Pending")
    two.here.kube.remove(TRAINING_JOBS, "big", "red")
    await two.settle(3)
    left = [one["metadata"]["name"] for one in two.mirrors()]
    assert (two.status()["phase"], "cluster" in two.status(), left) == ("Running", False, ["theirs"])


async def test_a_plan_that_was_made_before_a_job_is_fetched_back_does_not_admit_it() -> None:
    two = TwoClusters()
    submit(two.here.kube, "big")
    submit(two.there.kube, "theirs")
    await two.both()
    submit(two.here.kube, "train")
    await two.settle(2)
    two.here.kube.remove(TRAINING_JOBS, "big", "red")
    for pod in (await two.here.kube.list(PODS)).items:
        two.here.kube.remove(PODS, pod["metadata"]["name"], "red")
    two.here.observe()
    loop = two.here.operator.loop
    plan = loop.schedule(two.here.operator.cluster.snapshot(time.time()))
    assert [action.job for action in plan.actions] == ["red/train"]
    job = two.job()
    cluster = job["status"]["cluster"] | {"returning": "spec.suspend was set"}
    two.here.kube.put(TRAINING_JOBS, job | {"status": job["status"] | {"cluster": cluster}})
    two.here.kube.deliver(two.here.operator.feed.on_event)
    assert loop._plan_executor.carry_out(plan, time.time()) == ()


async def test_a_job_that_starts_there_first_is_not_fetched_back() -> None:
    two = TwoClusters()
    submit(two.here.kube, "big")
    submit(two.there.kube, "theirs")
    await two.both()
    submit(two.here.kube, "train")
    await two.settle(2)
    two.there.kube.remove(TRAINING_JOBS, "theirs", "red")
    two.here.kube.remove(TRAINING_JOBS, "big", "red")
    await two.both()
    assert two.status()["cluster"]["returning"] == "there is a place for it here"
    await two.look()
    status = two.status()
    assert (status["phase"], status["cluster"].get("returning")) == ("Starting", None)
    await two.settle(2)
    assert (two.status()["phase"], two.mirror()["status"]["phase"]) == ("Running", "Running")


async def test_what_names_objects_of_its_namespace_stays_here_and_says_why() -> None:
    two = TwoClusters()
    submit(two.here.kube, "big")
    await two.both()
    document = submit(two.here.kube, "train")
    code = {"runtime": {"entrypoint": "train:main", "code": {"configMap": {"name": "code"}}}}
    two.here.kube.put(TRAINING_JOBS, document | {"spec": document["spec"] | code})
    await two.settle(2)
    said = two.condition("Spillover")
    assert ("cluster" in two.status(), said["status"], said["reason"]) == (False, "False", "StaysHere")
    assert said["message"] == (
        "the job is not handed to cluster there: it names ConfigMap code of its namespace, which cluster there may not"
        " have; if objects of the same names are there, write spec.spillover: Always"
    )
    two.edit(two.here.kube, "train", spillover="Always")
    await two.settle(2)
    assert two.status()["cluster"]["name"] == "there"


@pytest.mark.parametrize("never", [{"spillover": "Never"}, {"suspend": True}])
async def test_some_jobs_do_not_go(never: dict[str, Any]) -> None:
    two = TwoClusters()
    submit(two.here.kube, "big")
    await two.both()
    document = submit(two.here.kube, "train")
    two.here.kube.put(TRAINING_JOBS, document | {"spec": document["spec"] | never})
    await two.settle(2)
    assert ("cluster" in two.status(), two.mirrors()) == (False, [])


async def test_a_queue_that_is_held_hands_nothing_over() -> None:
    two = TwoClusters()
    queue = two.here.kube.stored(QUEUES, "red")
    assert queue is not None
    two.here.kube.put(QUEUES, queue | {"spec": queue["spec"] | {"hold": "maintenance"}})
    submit(two.here.kube, "train")
    await two.settle(2)
    assert (two.status()["reason"], "cluster" in two.status()) == ("QueueHeld", False)


async def test_not_more_jobs_are_there_at_once_than_the_queue_lets() -> None:
    two = TwoClusters(maxJobs=1)
    for name in ("big", "train", "train-2"):
        submit(two.here.kube, name)
        await two.both()
    await two.settle(2)
    assert ["cluster" in two.status(name) for name in ("train", "train-2")] == [True, False]


async def test_while_nothing_is_heard_the_job_keeps_its_phase_says_since_when_and_is_started_nowhere_else() -> None:
    two = await with_a_job_there()
    two.reachable = False
    two.here.kube.remove(TRAINING_JOBS, "big", "red")
    await two.look()
    assert two.condition("ClusterLost") == {}
    await forward(40)
    await two.settle(3)
    status, lost = two.status(), two.condition("ClusterLost")
    assert (status["phase"], "placement" in status, lost["status"]) == ("Running", False, "True")
    assert re.sub(r"T00:\S+Z", "T00:00:00Z", lost["message"]) == (
        "nothing is heard of cluster there since 2026-01-01T00:00:00Z: the operator cannot read the jobs there;"
        " administrators: `kubectl describe remotecluster there`. The job may go on there; nothing is started here"
    )
    assert "the cluster does not answer: " in two.remote()["message"]
    assert (two.remote()["reachable"], two.remote()["conditions"][0]["reason"]) == ("False", "Unreachable")
    two.reachable = True
    await two.look()
    assert (two.condition("ClusterLost"), two.status()["phase"], two.remote()["reachable"]) == ({}, "Running", "True")


async def test_a_job_is_given_up_after_the_time_that_is_set_and_ended_there_when_it_is_found() -> None:
    two = await with_a_job_there(remote={"giveUpAfter": "10m"})
    two.reachable = False
    await forward(40)
    await two.look()
    await forward(500)
    await two.look()
    assert two.status()["cluster"]["name"] == "there"
    await forward(100)
    await two.look()
    assert (two.status()["phase"], "cluster" in two.status()) == ("Pending", False)
    assert "may still run there" in two.status()["message"]
    two.reachable = True
    await two.look()
    assert two.mirrors() == []


async def test_a_job_that_somebody_deletes_there_has_failed_here() -> None:
    two = await with_a_job_there()
    two.there.kube.remove(TRAINING_JOBS, two.mirror()["metadata"]["name"], "red")
    await two.look()
    assert (two.status()["phase"], two.status()["reason"]) == ("Failed", "DeletedThere")


async def test_what_somebody_changes_there_is_theirs() -> None:
    two = await with_a_job_there()
    two.edit(two.there.kube, two.mirror()["metadata"]["name"], suspend=True)
    await two.settle(3)
    assert (two.mirror()["spec"]["suspend"], two.status()["phase"]) == (True, "Pending")
    assert two.status()["cluster"]["phase"] == "Suspended"


async def test_a_job_that_is_refused_there_waits_here_alone() -> None:
    two = TwoClusters()
    two.there.kube.faults.add(
        Fault(call="POST trainingjobs/*", answer=Reply(Outcome.REFUSED, message='namespaces "red" not found', code=404))
    )
    submit(two.here.kube, "big")
    await two.both()
    submit(two.here.kube, "train")
    await two.settle(3)
    assert ("cluster" in two.status(), two.mirrors()) == (False, [])
    await forward(601)
    await two.settle(2)
    assert two.status()["cluster"]["name"] == "there"


TROUBLES: dict[str, tuple[Any, str, str]] = {
    "no Secret": (None, "SecretMissing", "there is no Secret there in namespace cotenant-system"),
    "no kubeconfig": ("", "KubeconfigInvalid", "it has no key `kubeconfig`"),
    "another thing": ("[1, 2", "KubeconfigInvalid", "it is no YAML"),
}


@pytest.mark.parametrize(("given", "reason", "message"), TROUBLES.values(), ids=list(TROUBLES))
async def test_a_secret_that_opens_nothing_is_named_and_holds_up_nobody(given: Any, reason: str, message: str) -> None:
    two = await with_a_job_there()
    if given is None:
        two.here.kube.remove(SECRETS, "there", SYSTEM)
    else:
        two.here.kube.put(SECRETS, secret(given))
    await two.look()
    (said,) = two.remote()["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("Reachable", "False", reason)
    assert message in said["message"]
    assert two.status()["phase"] == "Running"


async def test_a_job_whose_remote_cluster_is_deleted_says_what_to_do() -> None:
    two = await with_a_job_there()
    two.here.kube.remove(REMOTE_CLUSTERS, "there")
    two.here.kube.deliver(two.here.operator.feed.on_event)
    await two.here.operator.remote_clusters.note_unregistered()
    assert "there is no RemoteCluster there that can be read: make it again" in two.condition("ClusterLost")["message"]
    assert two.status()["phase"] == "Running"


async def test_a_kubeconfig_of_another_server_lets_nothing_follow_from_a_job_that_is_missing_there() -> None:
    two = await with_a_job_there()
    name = two.mirror()["metadata"]["name"]
    two.there.kube.remove(TRAINING_JOBS, name, "red")
    job = two.job()
    cluster = job["status"]["cluster"] | {"server": "https://first.example"}
    two.here.kube.put(TRAINING_JOBS, job | {"status": job["status"] | {"cluster": cluster}})
    await two.look()
    assert two.status()["phase"] == "Running"
    assert "it was handed to https://first.example" in two.condition("ClusterLost")["message"]


async def test_a_job_of_somebody_else_under_its_name_is_left_alone() -> None:
    two = await with_a_job_there()
    name = two.mirror()["metadata"]["name"]
    await two.look()
    other = {"metadata": {"name": "other", "namespace": "red", "labels": {"a": "b"}}, "spec": {}, "status": {}}
    two.there.kube.put(TRAINING_JOBS, other)
    await two.settle(2)
    assert {one["metadata"]["name"] for one in two.mirrors()} == {name, "other"}
