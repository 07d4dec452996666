"""The API of questions over TLS on loopback: who is answered, who is refused, and how."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cotenant.controller.client.kube import CONFIG_MAPS, GPU_NODES, TRAINING_JOBS
from cotenant.controller.query_api.access import CallerAccess
from cotenant.controller.query_api.answers import Answers
from cotenant.controller.query_api.server import ROOT, QueryServer
from tests.controller.execution.replica import NODE_NAMES, Replica, gpu_node, submit
from tests.controller.query_api.test_access import AuthorizingKube
from tests.controller.telemetry.test_probes import free_port
from tests.support.authorities import Authority
from tests.support.certificates import write_certificate

FRONT, OTHER = Authority("front-proxy-ca"), Authority("another-ca")
PATH = f"{ROOT}/namespaces/red/explanations/train"
ALICE = {"X-Remote-User": "alice", "X-Remote-Group": "team-a"}
MAY_ASK = (
    "alice get query.cotenant.dev/explanations red",
    "alice list query.cotenant.dev/explanations red",
    "alice list query.cotenant.dev/offers red",
    "alice list query.cotenant.dev/queuetrees",
    "alice create query.cotenant.dev/whatifs red",
)
WHATIFS = f"{ROOT}/namespaces/red/whatifs"


def config(authority: Authority) -> dict[str, Any]:
    data = {
        "requestheader-client-ca-file": authority.pem,
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
    metadata = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
    return {"metadata": metadata, "data": data}


class Served:
    """A replica that has decided once about a job which waits, and its server of questions."""

    def __init__(self, folder: Path, *allowed: str) -> None:
        self.folder, self.replica = folder, Replica()
        for name in NODE_NAMES:
            self.replica.kube.put(GPU_NODES, gpu_node(name, at=time.time()))
        submit(self.replica.kube, workers=9)
        operator = self.replica.operator
        self.replica.observe()
        snapshot = operator.cluster.snapshot(time.time())
        operator.questions.on_plan(snapshot, operator.loop.schedule(snapshot))
        self.kube = AuthorizingKube(*MAY_ASK, *allowed)
        self.kube.put(CONFIG_MAPS, config(FRONT))
        access = CallerAccess(self.kube)
        write_certificate(folder, "localhost")
        self.port = free_port()
        self.server = QueryServer(
            kube=self.kube,
            answers=Answers(
                cache=operator.cache, questions=operator.questions, access=access, is_leader=lambda: self.replica.leads
            ),
            access=access,
            address=("127.0.0.1", self.port),
            certificate=folder,
        )

    async def ask(
        self, path: str = PATH, *, by: Authority | None = FRONT, name: str = "front-proxy-client", **how: Any
    ) -> tuple[int, dict[str, Any]]:
        """Status and document, as the aggregator with a certificate of that authority, or as nobody."""
        context = ssl.create_default_context(cafile=str(self.folder / "tls.crt"))
        if by is not None:
            context.load_cert_chain(*by.write_client(self.folder, name))
        how = {"headers": ALICE, "method": "GET"} | how
        url = f"https://localhost:{self.port}{path}"
        async with aiohttp.ClientSession() as session, session.request(url=url, ssl=context, **how) as answer:
            return answer.status, json.loads(await answer.read())


@asynccontextmanager
async def served(folder: Path, *allowed: str) -> AsyncIterator[Served]:
    found = Served(folder, *allowed)
    await found.server.look()
    try:
        yield found
    finally:
        await found.server.close()


async def test_the_aggregator_is_answered_for_its_user(tmp_path: Path) -> None:
    async with served(tmp_path) as served_:
        code, document = await served_.ask()
    assert (code, document["kind"], document["apiVersion"]) == (200, "Explanation", "query.cotenant.dev/v1alpha1")
    assert document["metadata"] == {"name": "train", "namespace": "red"}
    assert (document["status"]["standing"], document["status"]["reason"]) == ("Waiting", "ExceedsCluster")


@pytest.mark.parametrize(
    ("how", "code", "reason"),
    [
        ({"by": None}, 401, "Unauthorized"),
        ({"name": "somebody"}, 401, "Unauthorized"),
        ({"headers": {}}, 401, "Unauthorized"),
        ({"headers": {"X-Remote-User": "mallory"}}, 403, "Forbidden"),
        ({"path": f"{ROOT}/namespaces/blue/explanations/train"}, 403, "Forbidden"),
        ({"path": f"{ROOT}/namespaces/red/explanations/nobody"}, 404, "NotFound"),
        ({"path": f"{ROOT}/namespaces/red/secrets/x"}, 404, "NotFound"),
        ({"method": "DELETE"}, 404, "NotFound"),
        ({"path": f"{ROOT}/explanations"}, 403, "Forbidden"),
        ({"path": WHATIFS, "method": "POST", "json": {"spec": {"job": "nobody"}}}, 404, "NotFound"),
        ({"path": WHATIFS, "method": "POST", "json": {"spec": {"manifest": {}}}}, 422, "Invalid"),
        ({"path": WHATIFS, "method": "POST", "data": b" " * 300_000}, 413, "RequestEntityTooLarge"),
    ],
    ids=[
        "no certificate",
        "another name",
        "no user",
        "may not",
        "not there",
        "no job",
        "no question",
        "no verb",
        "all namespaces",
        "a change of nobody",
        "no manifest",
        "too large",
    ],
)
async def test_everybody_else_is_refused_with_a_status(
    tmp_path: Path, how: dict[str, Any], code: int, reason: str
) -> None:
    async with served(tmp_path) as served_:
        answered, document = await served_.ask(**how)
    assert (answered, document["kind"], document["reason"]) == (code, "Status", reason)


async def test_a_certificate_of_another_authority_ends_the_handshake(tmp_path: Path) -> None:
    async with served(tmp_path) as served_:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await served_.ask(by=OTHER)


async def test_what_the_api_has_is_told_to_the_aggregator_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as served_:
        code, document = await served_.ask(ROOT, headers={"X-Remote-User": "system:kube-aggregator"})
        refused, _ = await served_.ask(ROOT, by=None)
    assert (code, refused, document["kind"]) == (200, 401, "APIResourceList")
    assert "explanations" in [one["name"] for one in document["resources"]]


async def test_every_question_has_its_document(tmp_path: Path) -> None:
    change = {"spec": {"job": "train", "change": {"spec.workers": 4}}}
    async with served(tmp_path) as served_:
        _, listed = await served_.ask(f"{ROOT}/namespaces/red/explanations")
        _, offered = await served_.ask(f"{ROOT}/namespaces/red/offers")
        _, tree = await served_.ask(f"{ROOT}/queuetrees")
        code, changed = await served_.ask(WHATIFS, method="POST", json=change)
    assert [one["metadata"]["name"] for one in listed["items"]] == ["train"]
    h100 = {"class": "H100", "guaranteed": 4, "borrowable": 0, "largestGang": 4, "onOneNode": 2, "largestShare": "1"}
    assert [one["status"] for one in offered["items"]] == [{"classes": [h100]}]
    assert [(one["metadata"]["name"], one["status"]["guaranteed"]) for one in tree["items"]] == [("red", "4")]
    nodes = {"n1": 2, "n2": 2}
    assert (code, changed["status"]) == (
        200,
        {"outcome": "Starts", "queue": "red", "asks": "4 workers × 1 GPU", "nodes": nodes, "needsChange": False},
    )


async def test_a_replica_that_does_not_lead_asks_for_patience(tmp_path: Path) -> None:
    async with served(tmp_path) as served_:
        served_.replica.lose()
        code, document = await served_.ask()
    assert (code, document["reason"]) == (503, "ServiceUnavailable")
    assert "changing its leader" in document["message"]


async def test_an_error_of_an_answer_is_told_as_one_and_goes_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("cotenant.controller.query_api.answers.explain", broken)
    async with served(tmp_path) as served_:
        code, document = await served_.ask()
        assert (code, document["reason"]) == (500, "InternalError")
    assert "ZeroDivisionError" in caplog.text


async def test_a_new_authority_of_the_aggregator_is_trusted_and_the_old_one_not_any_more(tmp_path: Path) -> None:
    async with served(tmp_path) as served_:
        served_.kube.put(CONFIG_MAPS, config(OTHER))
        await served_.server.look()
        assert (await served_.ask(by=OTHER))[0] == 200
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await served_.ask(by=FRONT)


async def test_a_finished_job_is_answered_by_its_phase(tmp_path: Path) -> None:
    async with served(tmp_path) as served_:
        replica = served_.replica
        submit(replica.kube, "ended")
        await replica.kube.patch(
            TRAINING_JOBS, "ended", {"status": {"phase": "Succeeded"}}, namespace="red", subresource="status"
        )
        replica.observe()
        code, document = await served_.ask(f"{ROOT}/namespaces/red/explanations/ended")
    assert (code, document["status"]["standing"]) == (200, "Succeeded")


async def test_a_port_that_is_taken_is_said_and_tried_again_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = Served(tmp_path)
    with socket.create_server(("127.0.0.1", found.port)):
        await found.server.look()
    assert "questions are not answered" in caplog.text
    await found.server.look()
    try:
        code, _ = await found.ask(ROOT)
    finally:
        await found.server.close()
    assert code == 200
