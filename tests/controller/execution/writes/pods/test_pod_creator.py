"""Making the objects of a placement: what exists already, whose it is, and what is not taken."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cotenant import names
from cotenant.api.resources.job_spec.evaluators import Evaluator
from cotenant.api.resources.job_spec.runtime import Strategy
from cotenant.controller.client.kube import (
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    FailedWebhookError,
    FailingServerError,
    Outcome,
    Reply,
    Resource,
    UnreachableError,
)
from cotenant.controller.execution.writes.pods.pod_creator import Creation
from cotenant.controller.informers.job_memory import ObjectCreation
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.manifests.from_job import attempt_of
from cotenant.controller.settings import Settings, SettingsError
from cotenant.core.model.plan import Admit
from tests.controller.execution.replica import SECRET, Replica, granted, start_pods, submit, writes
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime

SIDE_OBJECTS = ["POST networkpolicies/train", "POST services/train", f"POST secrets/{SECRET}"]
PODS_OF_IT = ["POST pods/train-1-0", "POST pods/train-1-1"]
ALL = {"train-1-0": ["GPU-n1-0", "GPU-n1-1"], "train-1-1": ["GPU-n2-0", "GPU-n2-1"]}


async def committed(workers: int = 4) -> tuple[Replica, JobRecord]:
    """A job whose placement is committed, and of which nothing else is there."""
    replica = Replica()
    submit(replica.kube, workers=workers)
    (action,) = replica.decide().actions
    assert isinstance(action, Admit)
    replica.kube.faults.add(*(Fault(call="POST *", lost="request") for _ in range(3)))
    record = replica.operator.cache.jobs["red/train"]
    with pytest.raises(UnreachableError):
        await replica.operator.loop.action_executor.admit(record, action)
    replica.observe()
    replica.kube.faults.pending.clear()
    del replica.kube.calls[:]
    return replica, replica.operator.cache.jobs["red/train"]


async def create(replica: Replica, record: JobRecord) -> tuple[Creation, ObjectCreation | None]:
    created = await replica.operator.loop.executor.pod_creator.create(record)
    return created, replica.operator.memories[record.id].creation


async def test_what_stands_beside_the_pods_comes_first() -> None:
    replica, record = await committed()
    assert await create(replica, record) == (Creation.CREATED, ObjectCreation(1, side_objects_made=True))
    assert (writes(replica.kube), await granted(replica.kube)) == (SIDE_OBJECTS + PODS_OF_IT, ALL)


async def test_a_single_rank_needs_no_service_and_no_token() -> None:
    replica, record = await committed(workers=1)
    await create(replica, record)
    assert writes(replica.kube) == ["POST networkpolicies/train", "POST pods/train-1-0"]


async def test_creating_twice_makes_nothing_twice() -> None:
    replica, record = await committed()
    await create(replica, record)
    await create(replica, record)
    assert writes(replica.kube) == SIDE_OBJECTS + PODS_OF_IT


async def test_the_token_of_an_attempt_has_256_bits_and_is_another_each_time() -> None:
    tokens = []
    for _ in range(2):
        replica, record = await committed()
        await create(replica, record)
        secret = replica.kube.stored(SECRETS, SECRET, "red")
        assert secret is not None
        tokens.append(base64.b64decode(secret["data"][names.SECRET_TOKEN_KEY]))
    assert ([len(bytes.fromhex(token.decode())) for token in tokens], tokens[0] == tokens[1]) == ([32, 32], False)


async def test_a_resize_takes_the_token_of_the_attempt_before() -> None:
    replica, record = await committed()
    await create(replica, record)
    assert record.job is not None
    elastic = record.job.model_copy(update={"spec": record.job.spec.model_copy(update={"min_workers": 2})})
    resized = replace(record, job=elastic, status=record.status.model_copy(update={"attempts": 2}))
    del replica.kube.calls[:]
    await create(replica, resized)
    assert writes(replica.kube)[0] == f"DELETE secrets/{SECRET}"
    secrets = [one["metadata"]["name"] for one in (await replica.kube.list(SECRETS)).items]
    assert secrets == [f"{SECRET[:-1]}2"]


async def test_of_parameter_servers_only_those_that_are_not_there_are_made() -> None:
    replica, record = await committed()
    job = record.job
    assert job is not None
    runtime = job.spec.runtime.model_copy(update={"strategy": Strategy.PARAMETER_SERVER})
    placement = record.status.placement
    assert placement is not None
    status = record.status.model_copy(update={"placement": placement.model_copy(update={"servers": 2})})
    spec = job.spec.model_copy(update={"runtime": runtime})
    served = replace(record, job=job.model_copy(update={"spec": spec}), status=status)
    replica.kube.faults.add(Fault(call="POST pods/train-1-s1", answer=Reply(Outcome.REFUSED, code=403)))
    assert (await create(replica, served))[0] is Creation.REFUSED
    assert (await create(replica, served))[0] is Creation.CREATED
    assert [call for call in writes(replica.kube) if call not in SIDE_OBJECTS] == [
        *PODS_OF_IT,
        "POST pods/train-1-s0",
        *["POST pods/train-1-s1"] * 2,
    ]


async def test_pods_carry_the_labels_of_their_namespace_that_the_administrator_names() -> None:
    replica, record = await committed()
    labels = {"cost-center": "c-7", "team": "red", "kubernetes.io/metadata.name": "red"}
    replica.kube.put(NAMESPACES, {"metadata": {"name": "red", "labels": labels}})
    replica.observe()
    creator = replica.operator.loop.executor.pod_creator
    creator.settings = Settings(namespace_labels="cost-center, owner")
    await create(replica, record)
    pods = (await replica.kube.list(PODS)).items
    assert [pod["metadata"]["labels"].get("cost-center") for pod in pods] == ["c-7", "c-7"]
    assert [pod["metadata"]["labels"].keys() & {"team", "owner"} for pod in pods] == [set(), set()]


@pytest.mark.parametrize(
    ("keys", "said"),
    [("cost center", "'cost center', which is no key of a label"), ("cotenant.dev/job", "the operator's own")],
)
def test_keys_of_labels_that_pods_cannot_take_over_are_refused(keys: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Settings.read({"COTENANT_NAMESPACE_LABELS": keys})


def with_evaluator(record: JobRecord) -> JobRecord:
    assert record.job is not None
    spec = record.job.spec.model_copy(update={"evaluator": Evaluator.model_validate({})})
    return replace(record, job=record.job.model_copy(update={"spec": spec}))


async def test_the_evaluator_comes_by_itself_and_after_the_pods_of_ranks() -> None:
    replica, record = await committed()
    evaluated = with_evaluator(record)
    await create(replica, evaluated)
    assert writes(replica.kube) == SIDE_OBJECTS + PODS_OF_IT
    await replica.operator.loop.executor.pod_creator.create_evaluator(evaluated)
    assert writes(replica.kube) == [*SIDE_OBJECTS, *PODS_OF_IT, "POST pods/train-1-e0"]


async def test_a_refused_evaluator_is_no_refusal_of_the_attempt() -> None:
    replica, record = await committed()
    answer = Reply(Outcome.REFUSED, message="exceeded quota", code=403)
    replica.kube.faults.add(Fault(call="POST pods/train-1-e0", answer=answer))
    await replica.operator.loop.executor.pod_creator.create_evaluator(with_evaluator(record))
    memory = replica.operator.memories[record.id]
    assert memory.evaluator_refusal(1) == "pods/train-1-e0 was refused (403): exceeded quota"
    assert memory.creation is not None
    assert (memory.evaluator_refusal(2), memory.creation.refusal) == (None, None)
    await replica.operator.loop.executor.pod_creator.create_evaluator(with_evaluator(record))
    assert memory.evaluator_refusal(1) is None


async def test_after_a_crash_what_is_there_is_taken_as_made_and_only_the_rest_is_made() -> None:
    replica, record = await committed()
    replica.kube.faults.add(Fault(call="POST pods/train-1-1", lost="request"))
    with pytest.raises(UnreachableError):
        await create(replica, record)
    restarted = Replica(replica.kube)
    await restarted.operator.feed.resync()
    created, _ = await create(restarted, restarted.operator.cache.jobs["red/train"])
    assert (created, await granted(replica.kube)) == (Creation.CREATED, ALL)
    assert writes(replica.kube) == [*SIDE_OBJECTS, "POST pods/train-1-0", *SIDE_OBJECTS, "POST pods/train-1-1"]


async def test_a_call_that_fails_is_reported_after_all_calls_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next write about the job would start while pods of this one are still being made."""
    replica, record = await committed()
    answer, post = asyncio.Event(), replica.kube.create

    async def slow(resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Reply:
        if body["metadata"]["name"] == "train-1-1":
            await answer.wait()
        return await post(resource, body, namespace)

    monkeypatch.setattr(replica.kube, "create", slow)
    replica.kube.faults.add(Fault(call="POST pods/train-1-0", lost="request"))
    creating = asyncio.create_task(create(replica, record))
    await asyncio.sleep(10.0)
    before = (creating.done(), sorted(await granted(replica.kube)))
    answer.set()
    with pytest.raises(UnreachableError, match="train-1-0"):
        await creating
    assert (before, sorted(await granted(replica.kube))) == ((False, []), ["train-1-1"])


async def test_a_token_that_is_there_is_taken_by_its_name_and_never_read() -> None:
    replica, record = await committed()
    replica.kube.put(SECRETS, {"metadata": {"name": SECRET, "namespace": "red"}})
    assert await create(replica, record) == (Creation.CREATED, ObjectCreation(1, side_objects_made=True))
    assert [call for call in replica.kube.calls if "secrets" in call] == [f"POST secrets/{SECRET}"]


async def test_a_pod_that_was_made_without_an_answer_is_adopted() -> None:
    replica, record = await committed()
    replica.kube.faults.add(Fault(call="POST pods/train-1-1", lost="answer"))
    with pytest.raises(UnreachableError):
        await create(replica, record)
    created, _ = await create(replica, record)
    assert (created, sorted(replica.operator.cache.pods.of_job(record.id))) == (Creation.CREATED, sorted(ALL))


def owned(kind: str, uid: str, api_version: str = "v1") -> dict[str, Any]:
    owner = {"apiVersion": api_version, "kind": kind, "name": "train", "uid": uid}
    return {"metadata": {"name": "train-1-0", "namespace": "red", "ownerReferences": [owner]}, "spec": {}, "status": {}}


@pytest.mark.parametrize(
    "owners", [[], owned("Audit", "other")["metadata"]["ownerReferences"]], ids=["none", "another"]
)
async def test_a_pod_whose_owners_somebody_edited_is_taken_as_made(owners: list[dict[str, Any]]) -> None:
    replica, record = await committed(workers=1)
    await create(replica, record)
    made = replica.kube.stored(PODS, "train-1-0", "red")
    assert made is not None
    made["metadata"] |= {"ownerReferences": owners, "labels": {}}
    restarted = Replica(replica.kube)
    created, _ = await create(restarted, record)
    assert (created, list(restarted.operator.cache.pods_of(record.id))) == (Creation.CREATED, ["train-1-0"])


async def test_what_a_release_before_made_in_the_old_version_is_taken_as_made() -> None:
    replica, record = await committed()
    await create(replica, record)
    for resource, name in ((NETWORK_POLICIES, "train"), (SERVICES, "train"), (SECRETS, SECRET)):
        made = replica.kube.stored(resource, name, "red")
        assert made is not None
        made["metadata"]["ownerReferences"][0]["apiVersion"] = "cotenant.dev/v1alpha1"
    made_already = ObjectCreation(1, side_objects_made=True)
    assert await create(Replica(replica.kube), record) == (Creation.CREATED, made_already)


async def test_a_pod_of_an_earlier_job_of_this_name_is_waited_for() -> None:
    replica, record = await committed(workers=1)
    replica.kube.put(PODS, owned("TrainingJob", "earlier", names.API_VERSION))
    message = "pods/train-1-0 of an earlier job of this name is still being removed"
    assert await create(replica, record) == (Creation.RETRY, ObjectCreation(1, side_objects_made=True, delay=message))
    replica.kube.remove(PODS, "train-1-0", "red")
    assert await create(replica, record) == (Creation.CREATED, ObjectCreation(1, side_objects_made=True))


async def test_a_pod_of_an_earlier_job_is_waited_for_whoever_else_owns_it() -> None:
    replica, record = await committed(workers=1)
    document, earlier = owned("Job", "other"), owned("TrainingJob", "earlier", names.API_VERSION)
    document["metadata"]["ownerReferences"] += earlier["metadata"]["ownerReferences"]
    replica.kube.put(PODS, document)
    created, _ = await create(replica, record)
    assert created is Creation.RETRY


@pytest.mark.parametrize("kind", ["Job", "TrainingJob"])
async def test_a_pod_of_another_owner_refuses_the_attempt_until_it_is_gone(kind: str) -> None:
    """This holds also if its kind has our kind's name: anybody may name an owner of another API group."""
    replica, record = await committed(workers=1)
    replica.kube.put(PODS, owned(kind, "other"))
    message = "pods/train-1-0 exists and does not belong to this job; remove it, or give the job another name"
    assert await create(replica, record) == (
        Creation.REFUSED,
        ObjectCreation(1, side_objects_made=True, refusal=message),
    )
    replica.kube.remove(PODS, "train-1-0", "red")
    assert (await create(replica, record))[0] is Creation.CREATED


@pytest.mark.parametrize(
    "forged",
    [
        {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "mine"}]},
        {"labels": {}},
        {"labels": {names.LABEL_MANAGED_BY: "Helm"}},
    ],
    ids=["as the uid of another kind", "without the label", "with another label"],
)
async def test_a_network_policy_that_only_knows_the_jobs_uid_is_not_the_operators(forged: dict[str, Any]) -> None:
    replica, record = await committed(workers=1)
    await create(replica, record)
    made = replica.kube.stored(NETWORK_POLICIES, "train", "red")
    assert made is not None
    made["metadata"] |= forged
    for owner in made["metadata"]["ownerReferences"]:
        owner["uid"] = record.uid
    again = Replica(replica.kube)
    message = "networkpolicies/train exists and does not belong to this job; remove it, or give the job another name"
    assert await create(again, record) == (Creation.REFUSED, ObjectCreation(1, refusal=message))


WEBHOOK = 'admission webhook "mutate.kyverno.svc-fail" denied the request: registry.example.com: i/o timeout'
QUOTA = "exceeded quota: team, requested: requests.cpu=2, used: requests.cpu=8, limited: requests.cpu=8"
CHANGED = "denied request: a pod of the operator has one container, worker, whose first process is Cotenant's launcher"
EXEMPT = (
    ". Something changed the pod on the way. Exempt pods labelled app.kubernetes.io/managed-by=cotenant from the"
    " webhook or policy that did it"
)


@pytest.mark.parametrize(
    ("code", "message", "fields", "created", "told"),
    [
        (400, WEBHOOK, (), Creation.REFUSED, f"pods/train-1-0 was refused (400): {WEBHOOK}"),
        (403, QUOTA, (), Creation.REFUSED, f"pods/train-1-0 was refused (403): {QUOTA}"),
        (422, "use a digest", ("",), Creation.REFUSED, "pods/train-1-0 was refused (422): use a digest"),
        (422, "too large", ("spec.containers[0].resources.requests",), Creation.REFUSED,
         "pods/train-1-0 was refused (422): too large"),
        (422, "no such volume", ("spec.containers[1].image",), Creation.REFUSED,
         "pods/train-1-0 was refused (422): no such volume"),
        (422, CHANGED, (), Creation.REFUSED, f"pods/train-1-0 was refused (422): {CHANGED}{EXEMPT}"),
        (422, "bad image", ("spec.containers[0].image",), Creation.REJECTED,
         "the API server does not take pods/train-1-0: bad image"),
        (422, "twice", ("spec.volumes[1].name", "spec.containers[0].volumeMounts[0].mountPath"), Creation.REJECTED,
         "the API server does not take pods/train-1-0: twice"),
        (422, "of a proxy", ("spec.volumes[9].name",), Creation.REFUSED,
         "pods/train-1-0 was refused (422): of a proxy"),
    ],
    ids=["a webhook without a code", "a full quota", "a policy without a reason", "requests above a default limit",
         "a container that was added", "a pod that was changed on the way", "an image that is no name",
         "a path that is mounted twice", "a volume that was added"],
)  # fmt: skip
async def test_only_what_the_author_wrote_wrong_ends_the_job(
    code: int, message: str, fields: tuple[str, ...], created: Creation, told: str
) -> None:
    replica, record = await committed(workers=1)
    answer = Reply(Outcome.REFUSED, message=message, code=code, fields=fields)
    replica.kube.faults.add(Fault(call="POST pods/*", answer=answer))
    made = ObjectCreation(1, side_objects_made=True)
    said = replace(made, rejection=told) if created is Creation.REJECTED else replace(made, refusal=told)
    assert await create(replica, record) == (created, said)


@pytest.mark.parametrize("what", ["networkpolicies/train", "pods/train-1-0"])
async def test_a_webhook_that_does_not_answer_refuses_in_its_own_words_and_leaves_nothing_open(what: str) -> None:
    replica, record = await committed(workers=1)
    words = 'failed calling webhook "mpod.kb.io": no endpoints available for service "jobset-webhook-service"'

    def fail() -> None:
        raise FailedWebhookError(words)

    replica.kube.faults.add(Fault(call=f"POST {what}", first=fail))
    created, creation = await create(replica, record)
    assert creation is not None
    assert (created, creation.refusal) == (Creation.REFUSED, f"{what} was refused (500): {words}")
    assert replica.operator.memories[record.id].unsettled == {}


@pytest.mark.parametrize("what", [f"secrets/{SECRET}", "pods/train-1-1"])
async def test_a_server_that_keeps_failing_is_told_of_until_it_is_well(what: str) -> None:
    replica, record = await committed()
    words = "POST failed 6 times; last: 500 Internal error occurred: rpc error: code = DeadlineExceeded"

    def fail() -> None:
        raise FailingServerError(words)

    replica.kube.faults.add(Fault(call=f"POST {what}", first=fail))
    with pytest.raises(FailingServerError):
        await create(replica, record)
    creation = replica.operator.memories[record.id].creation
    assert creation is not None
    assert creation.delay == f"{what} could not be made: {words}"
    assert await create(replica, record) == (Creation.CREATED, ObjectCreation(1, side_objects_made=True))


@pytest.mark.parametrize("workers", [pytest.param(1, id="one pod"), pytest.param(4, id="two pods, refused together")])
async def test_a_pod_names_the_amounts_that_the_quotas_of_its_namespace_count(workers: int) -> None:
    replica, record = await committed(workers=workers)
    refusal = "failed quota: team: must specify limits.cpu for: worker; requests.ephemeral-storage for: worker"
    for _ in record.placement.nodes if record.placement else ():
        replica.kube.faults.add(Fault(call="POST pods/*", answer=Reply(Outcome.REFUSED, message=refusal, code=403)))
    assert (await create(replica, record))[0] is Creation.RETRY
    assert (await create(replica, record))[0] is Creation.CREATED
    made = replica.kube.stored(PODS, "train-1-0", "red")
    assert made is not None
    resources = made["spec"]["containers"][0]["resources"]
    assert resources["limits"]["cpu"] == resources["requests"]["cpu"]
    assert resources["requests"]["ephemeral-storage"] == "51200Mi"


async def test_a_quota_that_asks_again_for_what_the_pod_names_refuses_it() -> None:
    replica, record = await committed(workers=1)
    answer = Reply(Outcome.REFUSED, message="must specify limits.cpu for: proxy", code=403)
    replica.kube.faults.add(Fault(call="POST pods/*", answer=answer))
    assert (await create(replica, record))[0] is Creation.RETRY
    replica.kube.faults.add(Fault(call="POST pods/*", answer=answer))
    assert (await create(replica, record))[0] is Creation.REFUSED


async def test_the_next_attempt_starts_without_the_troubles_of_the_last() -> None:
    replica, record = await committed(workers=1)
    replica.kube.faults.add(Fault(call="POST pods/*", answer=Reply(Outcome.REFUSED, message="no", code=422)))
    await create(replica, record)
    memory = replica.operator.memories[record.id]
    assert (memory.creation_of(1) is None, memory.creation_of(2)) == (False, None)
    await start_pods(replica.kube)


async def test_what_was_made_is_settled_and_its_attempt_known() -> None:
    replica, record = await committed()
    memory = replica.operator.memories[record.id]
    memory.attempts, memory.unsettled = 0, {}
    await create(replica, record)
    assert (memory.attempts, memory.unsettled) == (1, {})


async def test_a_pod_without_an_answer_counts_as_it_will_once_it_is_seen() -> None:
    replica, record = await committed()
    replica.kube.faults.add(*(Fault(call=call, lost="answer") for call in PODS_OF_IT))
    with pytest.raises(UnreachableError):
        await create(replica, record)
    assumed = replica.operator.memories[record.id].unsettled
    placement = record.placement
    assert record.job is not None
    assert placement is not None
    attempt = attempt_of(record.job, record.status, placement, replica.operator.cluster.nodes.gpus, Settings())
    cpu_milli, memory_mib, _ = attempt.each
    assert cpu_milli > 2
    assert memory_mib > 2
    assert {name: (pod.node, *pod.requests[:2]) for name, pod in assumed.items()} == {
        "train-1-0": ("n1", 2 * cpu_milli, 2 * memory_mib),
        "train-1-1": ("n2", 2 * cpu_milli, 2 * memory_mib),
    }
    replica.observe()
    seen = replica.operator.cache.pods_of(record.id)
    assert {name: (pod.worker, pod.queue_label) for name, pod in assumed.items()} == {
        name: (pod.worker, pod.queue_label) for name, pod in seen.items()
    }


async def test_what_stands_beside_the_pods_is_not_taken_for_one_of_them() -> None:
    replica, record = await committed()
    await create(replica, record)
    replica.operator.memories[record.id].creation = None
    assert (await create(replica, record))[0] is Creation.CREATED
    cache = replica.operator.cache
    assert (cache.pods.get("red/train"), cache.unreadable) == (None, {})


async def test_nothing_is_made_of_a_job_without_a_placement() -> None:
    replica = Replica()
    submit(replica.kube)
    replica.observe()
    record = replica.operator.cache.jobs["red/train"]
    assert await create(replica, record) == (Creation.CREATED, None)
    assert writes(replica.kube) == []
