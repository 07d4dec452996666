"""Whole lives of jobs under a real operator process on the real API server. Only the kubelets are played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from cotenant import names
from cotenant.controller.client.kube import (
    EVENTS,
    NETWORK_POLICIES,
    PODS,
    QUEUES,
    SECRETS,
    SERVICES,
    TRAINING_JOBS,
    Document,
    Outcome,
)
from tests.live.controller.operator_process.replicas import Tenant, simulated_tenant, training_job

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

FOREVER = 10_000.0


def kind(pod: Document) -> str:
    return str(pod["metadata"]["labels"][names.LABEL_JOB]).split("-", maxsplit=1)[0]


def seconds(pod: Document) -> float:
    """Run time by the job's name: ranks of `short-…` and `fails-…` end by themselves, others run until they are
    ended."""
    serves = names.LABEL_SERVER in pod["metadata"]["labels"]
    return 1.0 if kind(pod) in {"short", "fails"} and not serves else FOREVER


def code(pod: Document) -> int:
    return 3 if kind(pod) == "fails" else 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    """One operator, two nodes of four GPUs, a queue of eight."""
    logs = tmp_path_factory.mktemp("lives")
    async with simulated_tenant(api_server, "lives", logs, nodes=2, gpus=4, run_s=seconds, exit_code=code) as tenant:
        await tenant.start_ready()
        await tenant.wait(tenant.leader, what="the operator leads")
        yield tenant


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(running: Tenant) -> AsyncIterator[Tenant]:
    """The same, with no job left over from the test before."""
    yield running
    await running.clear()


def served(servers: int, **chosen: Any) -> dict[str, Any]:
    """A runtime with so many parameter servers."""
    asked = {"servers": servers, "resources": {"cpu": "100m", "memory": "64Mi"}, **chosen}
    return {"entrypoint": "train:main", "strategy": "ParameterServer", "parameterServer": asked}


async def pods_of(tenant: Tenant, job: str) -> list[str]:
    pods = await tenant.pods()
    return sorted(pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"][names.LABEL_JOB] == job)


async def no_pods_of(tenant: Tenant, job: str) -> bool:
    return await pods_of(tenant, job) == []


async def edit(tenant: Tenant, name: str, spec: dict[str, Any]) -> None:
    reply = await tenant.kube.patch(TRAINING_JOBS, name, {"spec": spec}, namespace=tenant.namespace)
    assert reply.done, reply.message


async def test_a_job_runs_to_its_end_and_says_so(tenant: Tenant) -> None:
    await tenant.submit("short-1", workers=2)
    status = await tenant.wait_phase("short-1", "Succeeded")
    assert (status["results"], status["attempts"], status["reason"], "placement" in status) == (
        {"accuracy": 0.97},
        1,
        "Completed",
        False,
    )
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Admitted": "False",
        "Running": "False",
        "Complete": "True",
    }


@pytest.mark.parametrize(
    ("name", "spec", "kinds"),
    [
        ("long-one-rank", {}, {"Pod"}),
        ("long-two-ranks", {"workers": 2}, {"Pod", "Secret"}),
        ("long-two-pods", {"workers": 6}, {"NetworkPolicy", "Pod", "Secret", "Service"}),
        ("long-served", {"runtime": served(1)}, {"NetworkPolicy", "Pod", "Secret", "Service"}),
    ],
    ids=["one rank", "two ranks in one pod", "two pods", "one rank and a parameter server"],
)
async def test_a_job_has_around_it_what_it_needs_and_owns_all_of_it(
    tenant: Tenant, name: str, spec: dict[str, Any], kinds: set[str]
) -> None:
    await base_network_policy_of(tenant)
    made = await tenant.submit(name, **spec)
    await tenant.wait_phase(name, "Running")
    resources = {"NetworkPolicy": NETWORK_POLICIES, "Pod": PODS, "Secret": SECRETS, "Service": SERVICES}
    owners = {
        (kind, owner["uid"])
        for kind, resource in resources.items()
        for item in (await tenant.kube.list(resource, tenant.namespace, labels=f"{names.LABEL_JOB}={name}")).items
        for owner in item["metadata"]["ownerReferences"]
    }
    assert owners == {(kind, made["metadata"]["uid"]) for kind in kinds}


async def base_network_policy_of(tenant: Tenant) -> Document:
    """The policy that a job of one pod has asked for."""
    if not (found := await tenant.kube.get(NETWORK_POLICIES, names.BASE_NETWORK_POLICY, tenant.namespace)).done:
        await tenant.submit("short-asks")

    async def there() -> Document:
        found = await tenant.kube.get(NETWORK_POLICIES, names.BASE_NETWORK_POLICY, tenant.namespace)
        return found.document if found.done else {}

    made: Document = found.document or await tenant.wait(there, what="the base NetworkPolicy is there")
    return made


async def test_the_network_policy_of_a_namespace_is_put_back_as_it_was_and_then_left_alone(tenant: Tenant) -> None:
    before = await base_network_policy_of(tenant)
    await tenant.submit("long-closed")
    await tenant.wait_phase("long-closed", "Running")
    where = {"namespace": tenant.namespace}
    await tenant.kube.patch(NETWORK_POLICIES, names.BASE_NETWORK_POLICY, {"spec": {"ingress": [{}]}}, **where)

    async def as_before() -> Document:
        found = await tenant.kube.get(NETWORK_POLICIES, names.BASE_NETWORK_POLICY, tenant.namespace)
        return found.document if found.done and found.document["spec"] == before["spec"] else {}

    mended = await tenant.wait(as_before, seconds=20.0, what="what somebody opened is closed again")
    assert mended["metadata"]["uid"] == before["metadata"]["uid"]
    await tenant.kube.delete(NETWORK_POLICIES, names.BASE_NETWORK_POLICY, tenant.namespace)
    again = await tenant.wait(as_before, seconds=20.0, what="what somebody deleted is there again")
    await tenant.submit("short-after")
    await tenant.wait_phase("short-after", "Succeeded")
    assert await as_before() == again


async def test_events_tell_the_tenant_the_story(tenant: Tenant) -> None:
    made = await tenant.submit("short-2")
    await tenant.wait_phase("short-2", "Succeeded")

    async def reported() -> list[str]:
        events = (await tenant.kube.list(EVENTS, tenant.namespace)).items
        ours = [one for one in events if one.get("involvedObject", {}).get("uid") == made["metadata"]["uid"]]
        reasons = [one["reason"] for one in sorted(ours, key=lambda one: str(one["eventTime"]))]
        return reasons if "Completed" in reasons else []

    reasons = await tenant.wait(reported, what="the events are written")
    assert (reasons[0], reasons[-1]) == ("Admitted", "Completed")


async def test_a_job_that_does_not_fit_is_told_so_and_runs_when_there_is_room(tenant: Tenant) -> None:
    await tenant.submit("long-2", workers=8)
    await tenant.wait_phase("long-2", "Running")
    await tenant.submit("short-3")
    status = await tenant.wait_phase("short-3", "Pending")
    assert status["pending"]["reason"] in {"WaitingForQuota", "WaitingForGPUs"}
    assert status["pending"]["message"].startswith("Needs 1 GPU")
    await tenant.kube.delete(TRAINING_JOBS, "long-2", tenant.namespace)
    await tenant.wait_phase("short-3", "Succeeded")


@pytest.mark.parametrize(
    ("name", "spec", "reason"),
    [
        ("hundred", {"workers": 100}, "ExceedsCluster"),
        ("nowhere", {"queue": "nobody"}, "QueueNotFound"),
        ("classless", {"gpu": {"count": 1, "classes": ["B9000"]}}, "ClassNotFound"),
    ],
    ids=["a hundred GPUs", "a queue that does not exist", "a class that does not exist"],
)
async def test_what_cannot_start_is_told_why_and_nothing_of_it_is_made(
    tenant: Tenant, name: str, spec: dict[str, Any], reason: str
) -> None:
    await tenant.submit(name, **spec)

    async def reported() -> dict[str, Any]:
        return dict((await tenant.status(name)).get("pending") or {})

    pending = await tenant.wait(reported, what=f"{name} has a reason")
    service = await tenant.kube.get(SERVICES, name, tenant.namespace)
    assert (pending["reason"], await pods_of(tenant, name), service.outcome) == (reason, [], Outcome.MISSING)


async def test_a_priority_class_that_does_not_exist_is_named_with_its_field(tenant: Tenant) -> None:
    await tenant.submit("classy", priorityClassName="nobodys")
    status = await tenant.wait_phase("classy", "Invalid")
    assert status["message"] == "spec.priorityClassName: there is no PriorityClass 'nobodys' in this cluster"
    assert {one["type"]: one["status"] for one in status["conditions"]}["Invalid"] == "True"


async def test_applying_twice_changes_nothing(tenant: Tenant) -> None:
    await tenant.submit("long-3")
    before = await tenant.wait_phase("long-3", "Running")
    again = await tenant.kube.create(TRAINING_JOBS, training_job("long-3", tenant.namespace), tenant.namespace)
    await edit(tenant, "long-3", {"workers": 1})
    await tenant.submit("short-4")
    await tenant.wait_phase("short-4", "Succeeded")
    after = await tenant.status("long-3")
    assert (again.outcome, after["placement"], await pods_of(tenant, "long-3")) == (
        Outcome.EXISTS,
        before["placement"],
        ["long-3-1-0"],
    )


async def test_a_running_job_cannot_be_edited_into_another_and_goes_on(tenant: Tenant) -> None:
    await tenant.submit("long-4")
    before = await tenant.wait_phase("long-4", "Running")
    refused = await tenant.kube.patch(TRAINING_JOBS, "long-4", {"spec": {"workers": 4}}, namespace=tenant.namespace)
    await edit(tenant, "long-4", {"priority": 7, "retries": 3})
    await tenant.submit("short-5")
    await tenant.wait_phase("short-5", "Succeeded")
    after = await tenant.status("long-4")
    assert (refused.outcome, "nor after it has finished: spec.workers; set suspend: true" in refused.message) == (
        Outcome.REFUSED, True,
    )  # fmt: skip
    assert (after["phase"], after["placement"]) == ("Running", before["placement"])


async def test_a_job_that_is_deleted_while_it_starts_leaves_nothing(tenant: Tenant) -> None:
    async def admitted() -> bool:
        return "placement" in await tenant.status("long-5")

    await tenant.submit("long-5", workers=8)
    await tenant.wait(admitted, what="long-5 is admitted")
    await tenant.kube.delete(TRAINING_JOBS, "long-5", tenant.namespace)
    await tenant.wait(tenant.empty, what="its pods are gone")
    await tenant.submit("short-6", workers=8)
    await tenant.wait_phase("short-6", "Succeeded")


async def test_a_job_of_the_same_name_starts_anew_after_the_first_is_gone(tenant: Tenant) -> None:
    first = await tenant.submit("long-6", workers=8)
    await tenant.wait_phase("long-6", "Running")
    await tenant.kube.delete(TRAINING_JOBS, "long-6", tenant.namespace)
    second = await tenant.submit("long-6", workers=8)
    await tenant.wait_phase("long-6", "Running")
    uids = {pod["metadata"]["labels"][names.LABEL_JOB_UID] for pod in await tenant.pods()}
    assert (uids, first["metadata"]["uid"] in uids) == ({second["metadata"]["uid"]}, False)


async def test_suspend_gives_the_gpus_back_and_resume_takes_them_again(tenant: Tenant) -> None:
    await tenant.submit("long-7", workers=8)
    await tenant.wait_phase("long-7", "Running")
    await edit(tenant, "long-7", {"suspend": True})
    suspended = await tenant.wait_phase("long-7", "Suspended")
    await tenant.submit("short-7", workers=8)
    await tenant.wait_phase("short-7", "Succeeded")
    await edit(tenant, "long-7", {"suspend": False})
    resumed = await tenant.wait_phase("long-7", "Running")
    assert ("placement" in suspended, resumed["attempts"], resumed["failures"]) == (False, 2, 0)


async def test_retries_are_used_up_and_then_it_has_failed(tenant: Tenant) -> None:
    await tenant.submit("fails-1", retries=1)
    status = await tenant.wait_phase("fails-1", "Failed")
    assert (status["attempts"], status["failures"], status["reason"], status["lastExit"]["code"]) == (
        2,
        2,
        "UserError",
        3,
    )


async def test_max_runtime_ends_a_job(tenant: Tenant) -> None:
    await tenant.submit("long-8", maxRuntime="2s")
    status = await tenant.wait_phase("long-8", "Failed")
    assert status["reason"] == "MaxRuntimeExceeded"
    await tenant.wait(lambda: no_pods_of(tenant, "long-8"), what="its pods are ended")


async def test_a_finished_job_is_removed_after_its_time(tenant: Tenant) -> None:
    async def gone() -> bool:
        return await tenant.job("short-8") is None

    await tenant.submit("short-8", ttlAfterFinished="1s")
    await tenant.wait(gone, what="short-8 is removed")


async def test_a_pod_that_somebody_deletes_costs_the_job_an_attempt_but_no_retry(tenant: Tenant) -> None:
    async def again() -> dict[str, Any]:
        status = await tenant.status("long-9")
        return status if status.get("phase") == "Running" and status["attempts"] == 2 else {}

    await tenant.submit("long-9", workers=6)
    await tenant.wait_phase("long-9", "Running")
    victim = (await pods_of(tenant, "long-9"))[1]
    await tenant.kube.delete(PODS, victim, tenant.namespace)
    status = await tenant.wait(again, what="long-9 runs again")
    assert (status["failures"], await pods_of(tenant, "long-9")) == (0, ["long-9-2-0", "long-9-2-1"])


async def test_servers_come_and_go_with_their_attempt_and_hold_no_gpu(tenant: Tenant) -> None:
    await tenant.submit("long-served-1", workers=6, runtime=served(2))
    status = await tenant.wait_phase("long-served-1", "Running")
    pods = await pods_of(tenant, "long-served-1")
    assert pods == [f"long-served-1-1-{name}" for name in ("0", "1", "s0", "s1")]
    assert (status["placement"]["servers"], status["placement"]["workers"]) == (2, 6)
    await tenant.submit("short-served-1", workers=2, runtime=served(1))  # the last two GPUs
    await tenant.wait_phase("short-served-1", "Succeeded")
    await tenant.wait(lambda: only_ended(tenant, "short-served-1"), what="the server of a job that is done is ended")
    await edit(tenant, "long-served-1", {"suspend": True})
    await tenant.wait_phase("long-served-1", "Suspended")
    assert await pods_of(tenant, "long-served-1") == []


async def only_ended(tenant: Tenant, job: str) -> bool:
    pods = [pod for pod in await tenant.pods() if pod["metadata"]["labels"][names.LABEL_JOB] == job]
    return all(pod["status"]["phase"] == "Succeeded" for pod in pods)


async def test_a_lost_server_costs_the_job_an_attempt_but_no_retry(tenant: Tenant) -> None:
    async def again() -> dict[str, Any]:
        status = await tenant.status("long-served-2")
        return status if status.get("phase") == "Running" and status["attempts"] == 2 else {}

    await tenant.submit("long-served-2", runtime=served(2))
    await tenant.wait_phase("long-served-2", "Running")
    await tenant.kube.delete(PODS, "long-served-2-1-s1", tenant.namespace)
    status = await tenant.wait(again, what="long-served-2 runs again")
    assert (status["failures"], status["lastExit"]["reason"]) == (0, "PodDeleted")
    assert await pods_of(tenant, "long-served-2") == [f"long-served-2-2-{name}" for name in ("0", "s0", "s1")]


async def test_a_server_that_no_node_can_take_is_named_at_the_job_with_the_schedulers_words(tenant: Tenant) -> None:
    async def reported() -> dict[str, Any]:
        status = await tenant.status("long-served-3")
        return status if status.get("reason") == "Unschedulable" else {}

    await tenant.submit("long-served-3", runtime=served(1, nodeSelector={"pool": "absent"}))
    status = await tenant.wait(reported, what="the job says why it does not start")
    assert status["phase"] == "Starting"
    said = "server pod long-served-3-1-s0 does not start: Unschedulable: 0/"
    assert status["message"].startswith(said), status["message"]
    assert "node(s) didn't match Pod's node affinity/selector" in status["message"]


async def test_a_higher_priority_takes_the_place_and_the_lower_comes_back(tenant: Tenant) -> None:
    await tenant.submit("long-10", workers=8)
    await tenant.wait_phase("long-10", "Running")
    await tenant.submit("short-9", workers=8, priority=100)
    await tenant.wait_phase("short-9", "Succeeded")
    status = await tenant.wait_phase("long-10", "Running")
    assert (status["eviction"]["kind"], status["eviction"]["done"], status["attempts"], status["failures"]) == (
        "Preempted",
        True,
        2,
        0,
    )


async def test_the_status_of_a_queue_says_what_is_held(tenant: Tenant) -> None:
    async def held() -> dict[str, Any]:
        found = await tenant.kube.get(QUEUES, tenant.namespace)
        status = dict(found.document.get("status") or {})
        return status if status.get("used") == "6" else {}

    await tenant.submit("long-11", workers=6)
    await tenant.wait_phase("long-11", "Running")
    status = await tenant.wait(held, what="the queue says that 6 GPUs are used")
    assert (status["borrowed"], status["running"], status["namespaces"]) == ("0", 1, [tenant.namespace])


async def test_a_foreign_service_in_the_way_is_named_and_left_alone_and_the_job_starts_when_it_is_gone(
    tenant: Tenant,
) -> None:
    async def refusal() -> str:
        conditions = (await tenant.status("long-12")).get("conditions") or ()
        return next((str(one["message"]) for one in conditions if one["type"] == "StartBlocked"), "")

    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "long-12"}, "spec": {"ports": [{"port": 1}]}}
    await tenant.kube.create(SERVICES, body, tenant.namespace)
    try:
        await tenant.submit("long-12", workers=6)
        message = await tenant.wait(refusal, what="the job says what is in its way")
        found = await tenant.kube.get(SERVICES, "long-12", tenant.namespace)
        assert "services/long-12 exists and does not belong to this job" in message
        assert found.done
    finally:
        await tenant.kube.delete(SERVICES, "long-12", tenant.namespace)
    await tenant.wait_phase("long-12", "Running")


async def test_a_restart_of_the_operator_is_not_noticed_by_running_jobs(tenant: Tenant) -> None:
    await tenant.submit("long-13", workers=2)
    before = await tenant.wait_phase("long-13", "Running")
    leader = await tenant.leader()
    await tenant.start_ready()
    tenant.replicas[leader].terminate()
    async with asyncio.timeout(30):
        assert await tenant.replicas[leader].wait() == 0
    assert await tenant.holder() != leader, "it gives the Lease back before it ends: nobody waits for it to expire"
    await tenant.submit("short-10")
    await tenant.wait_phase("short-10", "Succeeded")
    after = await tenant.status("long-13")
    assert (after["phase"], after["attempts"], after["placement"]) == ("Running", 1, before["placement"])
