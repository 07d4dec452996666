"""The client against the real API server: what came of each verb is a value, and only silence is an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import Configuration

from cotenant.controller.client.credentials import load_configuration
from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import (
    SECRETS,
    FencedError,
    Outcome,
    Resource,
    UnreachableError,
    version_of,
)
from cotenant.controller.client.rest import PAGE, RestKube, RetryPolicy

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster


CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions")


CONFIG_MAPS = Resource("", "v1", "configmaps")


HASTY = RetryPolicy(attempts=2, call_timeout_s=2.0, first_backoff_s=0.01)


def loaded(cluster: Cluster) -> Configuration:
    return load_configuration(str(cluster.kubeconfig))


@asynccontextmanager
async def client(cluster: Cluster, **options: Any) -> AsyncIterator[RestKube]:
    async with RestKube(lambda: loaded(cluster), **options) as kube:
        yield kube


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.mark.cluster
async def test_every_outcome_of_every_verb(api_server: Cluster) -> None:
    async with client(api_server) as kube:
        made = await kube.create(CONFIG_MAPS, config_map("one", a="1"), "default")
        again = await kube.create(CONFIG_MAPS, config_map("one"), "default")
        nonsense = await kube.create(CONFIG_MAPS, config_map("NOT A NAME"), "default")
        changed = await kube.patch(CONFIG_MAPS, "one", {"data": {"a": "2"}}, namespace="default")
        stale = {"metadata": {"resourceVersion": made.document["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
        late = await kube.patch(CONFIG_MAPS, "one", stale, namespace="default")
        missing = await kube.patch(CONFIG_MAPS, "none", {"data": {}}, namespace="default")
        other = await kube.delete(CONFIG_MAPS, "one", "default", uid="00000000-0000-0000-0000-000000000000")
        read = await kube.get(CONFIG_MAPS, "one", "default")
        gone = await kube.delete(CONFIG_MAPS, "one", "default", uid=made.document["metadata"]["uid"])
        absent = await kube.get(CONFIG_MAPS, "one", "default")
    assert [reply.outcome for reply in (made, again, nonsense, changed, late, missing, other, read, gone, absent)] == [
        Outcome.DONE,
        Outcome.EXISTS,
        Outcome.REFUSED,
        Outcome.DONE,
        Outcome.CONFLICT,
        Outcome.MISSING,
        Outcome.CONFLICT,
        Outcome.DONE,
        Outcome.DONE,
        Outcome.MISSING,
    ]
    assert (read.document["data"], version_of(changed.document) > version_of(made.document)) == ({"a": "2"}, True)


@pytest.mark.cluster
async def test_a_list_is_whole_although_it_comes_in_pages(api_server: Cluster) -> None:
    async with client(api_server) as kube:
        names = [f"page-{index:04d}" for index in range(PAGE + 20)]
        labels = {"labels": {"pages": "yes"}}
        bodies = [config_map(name) | {"metadata": {"name": name} | labels} for name in names]
        await asyncio.gather(*(kube.create(CONFIG_MAPS, body, "default") for body in bodies))
        listing = await kube.list(CONFIG_MAPS, "default", labels="pages=yes")
        await asyncio.gather(*(kube.delete(CONFIG_MAPS, name, "default") for name in names))
    assert sorted(item["metadata"]["name"] for item in listing.items) == names


@pytest.mark.cluster
async def test_a_resource_that_is_not_installed_is_named_with_a_hint(api_server: Cluster) -> None:
    async with client(api_server) as kube:
        with pytest.raises(UnreachableError, match=r"list of things refused \(404\).*CustomResourceDefinition"):
            await kube.list(Resource("example.com", "v1", "things"))


@pytest.mark.cluster
async def test_credentials_that_are_not_taken_any_more_are_read_again(api_server: Cluster) -> None:
    given: list[Configuration] = []

    def rotating() -> Configuration:
        configuration = loaded(api_server)
        if not given:  # the first time what a rotated token looks like: not known to the server
            configuration.cert_file = configuration.key_file = None
            configuration.api_key["BearerToken"] = "Bearer stale"
        given.append(configuration)
        return configuration

    async with RestKube(rotating) as kube:
        replies = await asyncio.gather(*(kube.get(SECRETS, f"none-{index}", "default") for index in range(5)))
    assert ([reply.outcome for reply in replies], len(given)) == ([Outcome.MISSING] * 5, 2)


@pytest.mark.cluster
async def test_a_replica_that_does_not_lead_reads_but_its_writes_are_not_sent(api_server: Cluster) -> None:
    async with client(api_server, before_write=Fence(lambda: False).check) as kube:
        with pytest.raises(FencedError):
            await kube.create(CONFIG_MAPS, config_map("fenced"), "default")
        read = await kube.get(CONFIG_MAPS, "fenced", "default")
    assert read.outcome is Outcome.MISSING


@pytest.mark.cluster
async def test_a_server_that_does_not_answer_is_an_error_that_says_which_call(api_server: Cluster) -> None:
    def nobody() -> Configuration:
        configuration = loaded(api_server)
        configuration.host = "https://127.0.0.1:9"
        return configuration

    calls: list[int] = []
    async with RestKube(nobody, retry=HASTY, on_call=lambda verb, path, code: calls.append(code)) as kube:
        with pytest.raises(UnreachableError, match="GET /api/v1/namespaces/default/secrets/x failed 2 times"):
            await kube.get(SECRETS, "x", "default")
    assert calls == [0, 0]


@pytest.mark.cluster
async def test_an_object_that_etcd_does_not_take_is_refused_at_the_first_try(api_server: Cluster) -> None:
    codes: list[int] = []
    async with client(api_server, on_call=lambda verb, path, code: codes.append(code)) as kube:
        replies = []
        for mib in (1.6, 2.5, 4.0):  # beyond what etcd takes, what may be sent to it, and what the API server reads
            revision: dict[str, Any] = {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {"name": "large"},
            }
            revision |= {"revision": 1, "data": {"text": "x" * int(mib * 2**20)}}
            replies.append(await kube.create(CONTROLLER_REVISIONS, revision, "default"))
    assert (codes, [reply.outcome for reply in replies]) == ([500, 500, 413], [Outcome.REFUSED] * 3)
    assert [reply.message.partition(":")[0] for reply in replies] == [
        "etcdserver",
        "rpc error",
        "Request entity too large",
    ]
