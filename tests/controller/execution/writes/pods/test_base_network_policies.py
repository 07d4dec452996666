"""One NetworkPolicy of a namespace closes its jobs of one pod: there before they are, and put back."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import NETWORK_POLICIES, PODS, TRAINING_JOBS, Document, Outcome, Reply, Resource
from cotenant.controller.execution.writes.pods.base_network_policies import REFUSED_S
from cotenant.controller.manifests.side_objects import base_network_policy
from cotenant.controller.settings import Settings
from tests.controller.execution.replica import Replica, submit, writes
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime

BASE = names.BASE_NETWORK_POLICY
MADE = f"POST networkpolicies/{BASE}"
MENDED = f"PATCH networkpolicies/{BASE}"


def stored(replica: Replica, name: str = BASE) -> Document | None:
    return replica.kube.stored(NETWORK_POLICIES, name, "red")


async def start(replica: Replica, name: str, workers: int = 1, **spec: Any) -> None:
    """Admit the job and make what it needs."""
    job = submit(replica.kube, name, workers)
    replica.kube.put(TRAINING_JOBS, job | {"spec": job["spec"] | spec})
    for action in replica.decide().actions:
        record = replica.operator.cache.jobs[action.job]
        await replica.operator.loop.action_executor.admit(record, action)  # type: ignore[arg-type]
    replica.observe()


async def put_back(replica: Replica) -> None:
    replica.observe()
    await replica.operator.base_network_policies.put_back()
    replica.observe()


async def test_the_first_job_of_one_pod_has_its_own_and_those_that_come_after_the_base_have_none() -> None:
    replica = Replica()
    await start(replica, "first")
    await put_back(replica)
    await start(replica, "second")
    made = [call for call in writes(replica.kube) if "networkpolicies" in call]
    assert made == ["POST networkpolicies/first", MADE]
    assert "POST pods/second-1-0" in writes(replica.kube)


async def test_a_gang_keeps_its_own_and_asks_for_no_base() -> None:
    replica = Replica()
    await start(replica, "gang", workers=3)
    await put_back(replica)
    assert (stored(replica, "gang") is not None, stored(replica)) == (True, None)


def opened(policy: Document) -> None:
    policy["spec"]["ingress"] = [{}]


def narrowed(policy: Document) -> None:
    policy["spec"]["podSelector"]["matchExpressions"] = [{"key": names.LABEL_JOB, "operator": "DoesNotExist"}]


def halved(policy: Document) -> None:
    policy["spec"]["policyTypes"] = ["Ingress"]


def unlabelled(policy: Document) -> None:
    policy["metadata"]["labels"] = {"team": "red"}


async def test_two_pods_with_ranks_and_one_with_a_parameter_server_are_no_job_of_one_pod() -> None:
    replica = Replica()
    await start(replica, "gang", workers=4)
    job = replica.kube.stored(TRAINING_JOBS, "gang", "red")
    assert job is not None
    job["status"]["placement"]["servers"] = 1
    replica.kube.put(TRAINING_JOBS, job)
    await put_back(replica)
    assert (len(job["status"]["placement"]["nodes"]), stored(replica)) == (2, None)


async def test_a_job_with_an_evaluator_is_no_job_of_one_pod() -> None:
    replica = Replica()
    await start(replica, "evaluated", evaluator={})
    await put_back(replica)
    assert (stored(replica, "evaluated") is not None, stored(replica)) == (True, None)


@pytest.mark.parametrize("edit", [opened, narrowed, halved, unlabelled])
async def test_what_somebody_edits_is_put_back_and_a_job_that_comes_before_has_its_own(edit: Any) -> None:
    replica = Replica()
    await start(replica, "first")
    await put_back(replica)
    policy = stored(replica)
    assert policy is not None
    edit(policy)
    replica.kube.put(NETWORK_POLICIES, policy)
    await start(replica, "second")
    assert stored(replica, "second") is not None
    await put_back(replica)
    mended, wanted = stored(replica), base_network_policy("red", Settings())
    assert mended is not None
    assert mended["spec"] == wanted["spec"]
    assert wanted["metadata"]["labels"].items() <= mended["metadata"]["labels"].items()
    await put_back(replica)
    assert writes(replica.kube).count(MENDED) == 1


async def test_one_that_is_removed_is_made_again_while_a_job_relies_on_it_also_by_the_next_leader() -> None:
    replica = Replica()
    await start(replica, "first")
    await put_back(replica)
    replica.kube.remove(NETWORK_POLICIES, BASE, "red")
    after = Replica(replica.kube)
    await after.operator.feed.resync()
    await put_back(after)
    assert stored(replica) is not None


async def test_it_is_put_back_within_moments_of_its_removal() -> None:
    replica = Replica()
    await start(replica, "first")
    await put_back(replica)
    running = asyncio.create_task(replica.operator.base_network_policies.run())
    await asyncio.sleep(10.0)
    replica.kube.remove(NETWORK_POLICIES, BASE, "red")
    replica.observe()
    await asyncio.sleep(0.6)
    running.cancel()
    assert stored(replica) is not None


async def test_a_replica_that_does_not_lead_writes_none() -> None:
    replica = Replica()
    await start(replica, "first")
    replica.lose()
    running = asyncio.create_task(replica.operator.base_network_policies.run())
    await asyncio.sleep(20.0)
    running.cancel()
    assert stored(replica) is None


async def test_where_it_is_refused_jobs_have_their_own_and_it_is_tried_again_after_a_while() -> None:
    replica = Replica()
    refused = Reply(Outcome.REFUSED, message="an admission policy stands against it", code=403)
    replica.kube.faults.add(*(Fault(call=MADE, answer=refused) for _ in range(2)))
    for name in ("first", "second"):
        await start(replica, name)
        await put_back(replica)
    assert [stored(replica, name) is None for name in ("first", "second", BASE)] == [False, False, True]
    assert writes(replica.kube).count(MADE) == 1
    await asyncio.sleep(REFUSED_S)
    await put_back(replica)
    assert writes(replica.kube).count(MADE) == 2


async def test_one_that_is_there_already_is_taken_over() -> None:
    replica = Replica()
    await start(replica, "first")
    foreign: Document = {"metadata": {"name": BASE, "namespace": "red"}, "spec": {"podSelector": {}, "ingress": [{}]}}
    replica.kube.put(NETWORK_POLICIES, foreign)
    await replica.operator.base_network_policies.put_back()  # it has not seen it yet
    await put_back(replica)
    found = stored(replica)
    assert found is not None
    assert found["spec"] == base_network_policy("red", Settings())["spec"]


async def test_one_that_goes_with_an_owner_of_somebody_elses_is_not_relied_on() -> None:
    replica = Replica()
    foreign = base_network_policy("red", Settings())
    foreign["metadata"] |= {"namespace": "red", "ownerReferences": [{"kind": "ConfigMap", "name": "mine", "uid": "1"}]}
    replica.kube.put(NETWORK_POLICIES, foreign)
    for name in ("first", "second"):
        await start(replica, name)
        await put_back(replica)
    assert [stored(replica, name) is not None for name in ("first", "second")] == [True, True]


STEPS = ("job", "put back", "remove", "open")


@pytest.mark.parametrize("steps", list(itertools.product(STEPS, repeat=3)), ids=", ".join)
async def test_no_pod_is_made_that_nothing_closes_in_any_order_of_what_people_do(steps: tuple[str, ...]) -> None:
    """A policy that is removed during the call itself is put back afterwards."""
    replica, closed = Replica(), []
    create = replica.kube.create

    async def look(resource: Resource, body: Any, namespace: str = "") -> Reply:
        if resource == PODS:
            closed.append(_closes(stored(replica)) or stored(replica, body["metadata"]["labels"][names.LABEL_JOB]))
        return await create(resource, body, namespace)

    replica.kube.create = look  # type: ignore[method-assign]
    for number, step in enumerate(("job", "put back", *steps, "job")):
        if step == "job":
            await start(replica, f"job-{number}")
        elif step == "put back":
            await put_back(replica)
        elif (policy := stored(replica)) is not None and step == "remove":
            replica.kube.remove(NETWORK_POLICIES, policy["metadata"]["name"], "red")
        elif policy is not None and step == "open":
            opened(policy)
            replica.kube.put(NETWORK_POLICIES, policy)
        replica.observe()
    assert len(closed) == min(4, 2 + steps.count("job"))  # there are four GPUs
    assert all(closed)


def _closes(policy: Document | None) -> bool:
    return policy is not None and policy["spec"] == base_network_policy("red", Settings())["spec"]
