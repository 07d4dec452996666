"""What a job prints on another cluster, asked of the operator here: whose pods are shown, and what refusals say."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from cotenant import names
from cotenant.controller.client.kube import (
    PODS,
    REMOTE_CLUSTERS,
    SECRETS,
    TRAINING_JOBS,
    Document,
    Outcome,
    RefusedListError,
    Reply,
    UnreachableError,
)
from cotenant.controller.composites.remote_clusters.remote_pods import RemotePods
from cotenant.controller.composites.remote_clusters.remote_questions import (
    AGAIN,
    STREAMS_OF_ONE_MAX,
    RemoteQuestions,
    log_query,
)
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.query_api.front_proxy import Caller
from cotenant.controller.query_api.questions import (
    ElsewhereError,
    NotFoundError,
    NotNowError,
    TooManyQuestionsError,
)
from tests.controller.builders import job_document
from tests.controller.composites.remote_clusters.two_clusters import SYSTEM, remote_cluster, secret
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

ALICE = Caller("alice", ("team-a",), "7", {})
AWAY = {
    "name": "there", "namespace": "far", "job": "train-1", "uid": "u-there", "attempts": 2,
    "server": "https://there.example", "since": "2026-01-01T00:00:00Z", "phase": "Running",
}  # fmt: skip
FORBIDDEN = Reply(Outcome.REFUSED, message="pods is forbidden", code=403)


def pod(name: str, *, uid: str = "u-there", owner: str = "u-there", attempt: int = 2) -> Document:
    return {
        "metadata": {
            "name": name,
            "namespace": "far",
            "labels": {names.LABEL_JOB_UID: uid, names.LABEL_ATTEMPT: str(attempt)},
            "annotations": {names.ANNOTATION_PLACEMENT: '{"ranks": {"0": []}}', "secret": "x"},
            "ownerReferences": [{"uid": owner, "controller": True}],
        },
        "spec": {"containers": [{"env": [{"name": "HF_TOKEN", "value": "sesame"}]}]},
        "status": {"phase": "Running", "containerStatuses": [{"state": {"running": {}}, "image": "i"}]},
    }


class Asked:
    """The questions, served as the operator serves them to one user, about the job red/train."""

    def __init__(self, *faults: Fault, cluster: Mapping[str, Any] | None = AWAY) -> None:
        self.here, self.there, self.opened = FakeKube(), FakeKube(*faults), 0
        self.here.put(SECRETS, secret())
        cache = ObjectCache()
        cache.put(REMOTE_CLUSTERS, self.here.put(REMOTE_CLUSTERS, remote_cluster()))
        cache.put(TRAINING_JOBS, job_document(status={"phase": "Running", **({"cluster": cluster} if cluster else {})}))
        self.cache = cache
        for one in (pod("train-1-2-0"), pod("train-1-1-0", attempt=1), pod("foreign", uid="other", owner="other")):
            self.there.put(PODS, one)
        self.there.put(PODS, pod("labelled", owner="somebody"))
        self.there.logs["far", "train-1-2-0"] = [b"step 1\n", b"step 2\n"]
        pods = RemotePods(kube=self.here, cache=cache, connect=self._connect, namespace=SYSTEM)
        self.questions = RemoteQuestions(pods=pods)

    @asynccontextmanager
    async def _connect(self, _: Any) -> AsyncIterator[FakeKube]:
        self.opened += 1
        try:
            yield self.there
        finally:
            self.opened -= 1

    async def __call__(self, path: str) -> Any:
        """The parsed answer, or its text; raises what the question raises."""
        raised: list[Exception] = []
        app = web.Application()
        for route in self.questions.routes():

            async def respond(request: web.Request, answer: Any = route.answer) -> web.StreamResponse:
                try:
                    found = await answer(request, ALICE)
                except Exception as error:
                    raised.append(error)
                    return web.Response(status=500)
                return found if isinstance(found, web.StreamResponse) else web.json_response(found)

            app.router.add_route(route.method, route.path, respond)
        async with TestClient(TestServer(app)) as client:
            answer = await client.get(f"/namespaces/red/remotejobs/train{path}")
            text = await answer.text()
        if raised:
            raise raised[0]
        return json.loads(text) if answer.content_type == "application/json" else text


async def test_the_pods_of_an_attempt_are_listed_without_what_is_in_them() -> None:
    asked = Asked()
    assert (await asked("/pods"))["items"] == [
        {
            "metadata": {"name": "train-1-2-0", "annotations": {names.ANNOTATION_PLACEMENT: '{"ranks": {"0": []}}'}},
            "status": {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]},
        }
    ]
    assert [one["metadata"]["name"] for one in (await asked("/pods?attempt=1"))["items"]] == ["train-1-1-0"]
    assert asked.opened == 0, "the client is closed when the question is answered"


async def test_a_log_is_passed_on_as_it_comes() -> None:
    asked = Asked()
    assert await asked("/log/train-1-2-0?follow=false&tailLines=5&limitBytes=1&container=other") == "step 1\nstep 2\n"
    assert asked.there.log_queries == [{"follow": "false", "tailLines": "5", "container": names.CONTAINER}]
    assert asked.opened == 0


@pytest.mark.parametrize("name", ["foreign", "labelled", "nobody"])
@pytest.mark.parametrize("path", ["/pods/", "/log/"])
async def test_no_pod_of_another_job_is_shown_whatever_name_is_asked_for(path: str, name: str) -> None:
    with pytest.raises(NotFoundError, match=f"train has no pod {name} there"):
        await Asked()(path + name)


@pytest.mark.parametrize("cluster", [None, {**AWAY, "uid": ""}], ids=["it is here", "it is not made there yet"])
async def test_a_job_that_is_nowhere_else_has_no_pods_there(cluster: dict[str, Any] | None) -> None:
    with pytest.raises(NotFoundError, match="red/train is on no other cluster"):
        await Asked(cluster=cluster)("/pods")


@pytest.mark.parametrize(
    ("fault", "path", "says"),
    [
        (Fault(call="GET pods/train-1-2-0", answer=FORBIDDEN), "/log/train-1-2-0", "role cotenant-remote-logs"),
        (Fault(call="LIST pods", lost="request"), "/pods", "the cluster does not answer"),
    ],
    ids=["it may not", "it is lost"],
)
async def test_a_cluster_that_does_not_answer_is_named_with_what_to_do(fault: Fault, path: str, says: str) -> None:
    with pytest.raises(ElsewhereError) as refused:
        await Asked(fault)(path)
    assert str(refused.value).startswith("cluster there: ")
    assert says in str(refused.value)
    assert str(refused.value).endswith("There: kubectl cotenant logs far/train-1")


async def test_a_reader_is_not_shown_the_operators_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: Any) -> Any:
        raise UnreachableError("GET /api/v1/namespaces/far/pods failed 5 times; last: TimeoutError: no route to host")

    asked = Asked()
    monkeypatch.setattr(asked.there, "list", lost)
    with pytest.raises(ElsewhereError) as refused:
        await asked("/pods")
    said = "cluster there: the cluster does not answer: TimeoutError: no route to host. There: kubectl cotenant logs"
    assert str(refused.value) == f"{said} far/train-1"


async def test_trouble_of_the_api_server_here_is_not_put_down_to_the_other_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lost(*_: Any) -> Any:
        raise UnreachableError("GET /api/v1/namespaces/cotenant-system/secrets/west failed 5 times; last: reset")

    asked = Asked()
    monkeypatch.setattr(asked.here, "get", lost)
    with pytest.raises(ElsewhereError) as refused:
        await asked("/pods")
    assert str(refused.value) == f"the API server here does not answer the operator now: {AGAIN}"


async def test_an_account_that_may_not_list_pods_there_is_told_its_role(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: Any) -> Any:
        raise RefusedListError("list of pods refused (403): pods is forbidden", 403)

    asked = Asked()
    monkeypatch.setattr(asked.there, "list", refused)
    with pytest.raises(ElsewhereError, match="role cotenant-remote-logs"):
        await asked("/pods")


async def test_a_kubeconfig_of_another_server_shows_nothing_of_it() -> None:
    with pytest.raises(ElsewhereError, match=r"the job is at https://before\.example"):
        await Asked(cluster={**AWAY, "server": "https://before.example"})("/pods")


async def test_a_container_that_has_not_started_has_no_log_yet() -> None:
    asked = Asked()
    asked.there.logs.clear()
    with pytest.raises(NotNowError, match="ContainerCreating"):
        await asked("/log/train-1-2-0")


async def test_one_user_reads_so_many_logs_at_once_and_no_more() -> None:
    asked = Asked()
    asked.questions._open["alice"] = STREAMS_OF_ONE_MAX
    with pytest.raises(TooManyQuestionsError, match="choose one with --rank"):
        await asked("/log/train-1-2-0")
    asked.questions._open["alice"] -= 1
    assert await asked("/log/train-1-2-0") == "step 1\nstep 2\n"


@pytest.mark.parametrize(
    ("asked", "passed_on"),
    [
        ({"tailLines": "5", "follow": "true"}, {"tailLines": "5", "follow": "true"}),
        ({"sinceTime": "2026-01-01T00:00:00Z"}, {"sinceTime": "2026-01-01T00:00:00Z"}),
        ({"tailLines": "-1", "follow": "yes", "sinceTime": "x", "container": "c", "insecureSkipTLSVerify": "true"}, {}),
    ],
)
def test_only_known_parameters_are_passed_on(asked: dict[str, str], passed_on: dict[str, str]) -> None:
    assert log_query(asked) == passed_on
