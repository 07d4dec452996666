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
from aiohttp import web

from cotenant.controller.client.kube import CONFIG_MAPS, GPU_NODES, TRAINING_JOBS
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.query_api.access import CallerAccess
from cotenant.controller.query_api.answers import Answers
from cotenant.controller.query_api.front_proxy import Caller
from cotenant.controller.query_api.questions import ElsewhereError
from cotenant.controller.query_api.record_answers import RecordAnswers
from cotenant.controller.query_api.server import ROOT, QueryServer, Route
from cotenant.decision_log.capsule import Capsule, differences, replayed
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.prices import parse_prices
from cotenant.decision_log.timelines import Happening, Timeline
from tests.controller.execution.replica import NODE_NAMES, Replica, gpu_node, submit
from tests.controller.query_api.test_access import AuthorizingKube
from tests.controller.telemetry.test_probes import free_port
from tests.support.certificates import Authority, write_certificate

FRONT, OTHER = Authority("front-proxy-ca"), Authority("another-ca")
PATH = f"{ROOT}/namespaces/red/explanations/train"
ALICE = {"X-Remote-User": "alice", "X-Remote-Group": "team-a"}
MAY_ASK = (
    "alice get query.cotenant.dev/explanations red",
    "alice list query.cotenant.dev/explanations red",
    "alice list query.cotenant.dev/offers red",
    "alice list query.cotenant.dev/queuetrees",
    "alice list query.cotenant.dev/nodeneeds",
    "alice get query.cotenant.dev/runs red",
    "alice list query.cotenant.dev/runs red",
    "alice list query.cotenant.dev/showbacks red",
    "root list query.cotenant.dev/showbacks",
    "root list query.cotenant.dev/decisions",
    "root get query.cotenant.dev/capsules",
    "root list query.cotenant.dev/capsules",
    "root list query.cotenant.dev/runs",
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
        plan = operator.loop.schedule(snapshot)
        operator.questions.on_plan(snapshot, plan)
        operator.decision_recorder.on_decision(snapshot, plan, (), 0.1)
        self.kube = AuthorizingKube(*MAY_ASK, *allowed)
        self.kube.put(CONFIG_MAPS, config(FRONT))
        access = CallerAccess(self.kube)
        write_certificate(folder, "localhost")
        self.port = free_port()
        self.server = QueryServer(
            kube=self.kube,
            answers=Answers(
                cache=operator.cache,
                questions=operator.questions,
                access=access,
                leadership=Leadership(lambda: self.replica.leads),
            ),
            records=RecordAnswers(recorder=operator.decision_recorder, access=access),
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
        _, needed = await served_.ask(f"{ROOT}/nodeneeds")
        code, changed = await served_.ask(WHATIFS, method="POST", json=change)
    assert [one["metadata"]["name"] for one in listed["items"]] == ["train"]
    h100 = {"class": "H100", "guaranteed": 4, "borrowable": 0, "largestGang": 4, "onOneNode": 2, "largestShare": "1"}
    assert [one["status"] for one in offered["items"]] == [{"classes": [h100]}]
    assert [(one["metadata"]["name"], one["status"]["guaranteed"]) for one in tree["items"]] == [("red", "4")]
    need = {"gpus": {"H100": 2}, "nodes": 3, "starts": 1, "isLeast": True}
    assert [(one["metadata"]["name"], one["status"]) for one in needed["items"]] == [("n1", need)]
    assert needed["status"] == {"waiting": 1, "unhelped": {}, "untriedKinds": 0}
    nodes = {"n1": 2, "n2": 2}
    assert (code, changed["status"]) == (
        200,
        {"outcome": "Starts", "queue": "red", "asks": "4 workers × 1 GPU", "nodes": nodes, "needsChange": False},
    )


async def test_what_others_answer_takes_the_right_to_its_subresource_and_may_be_a_stream(tmp_path: Path) -> None:
    async def printed(request: web.Request, _: Caller) -> web.StreamResponse:
        if request.query:
            raise ElsewhereError("cluster west: it does not answer")
        return web.json_response({"kind": "Printed"})

    async with served(tmp_path) as served_:
        await served_.server.close()
        served_.server.more = (Route("GET", "/namespaces/{namespace}/a/b/log", "get", "a/log", printed),)
        served_.server._proxy = None
        await served_.server.look()
        refused, _ = await served_.ask(f"{ROOT}/namespaces/red/a/b/log")
        served_.kube.allowed.add("alice get query.cotenant.dev/a/log blue")
        code, document = await served_.ask(f"{ROOT}/namespaces/blue/a/b/log")
        failed, said = await served_.ask(f"{ROOT}/namespaces/blue/a/b/log?x=1")
    assert (refused, code, document) == (403, 200, {"kind": "Printed"})
    assert (failed, said["reason"], said["message"]) == (502, "BadGateway", "cluster west: it does not answer")


ROOT_USER = {"X-Remote-User": "root", "X-Remote-Group": "admins"}


async def test_records_have_their_documents_and_what_names_everybody_is_for_administrators(tmp_path: Path) -> None:
    async with served(tmp_path) as served_:
        recorder = served_.replica.operator.decision_recorder
        await recorder.drain()
        happened = Happening(at=0.0, what="Evicted", message="for blue/big", mentions=("blue",))
        ended = RunRecord(namespace="red", name="old", uid="u", queue="red", outcome="Failed", gpu_milliseconds=7_000,
                          tail=("boom",), timeline=Timeline(happenings=(happened,)))  # fmt: skip
        recorder.archive.add([ended])
        _, live = await served_.ask(f"{ROOT}/namespaces/red/runs/train")
        _, over = await served_.ask(f"{ROOT}/namespaces/red/runs/old")
        _, listed = await served_.ask(f"{ROOT}/namespaces/red/runs?limit=1")
        none, _ = await served_.ask(f"{ROOT}/namespaces/red/runs/nobody")
        refused = [(await served_.ask(ROOT + path))[0] for path in ("/runs", "/decisions", "/capsules/current")]
        _, everywhere = await served_.ask(f"{ROOT}/runs", headers=ROOT_USER)
        _, decisions = await served_.ask(f"{ROOT}/decisions", headers=ROOT_USER)
        _, capsule = await served_.ask(f"{ROOT}/capsules/current", headers=ROOT_USER)
        recorder.capsules.every = 1
        last = recorder._last
        assert last is not None
        recorder.capsules.take("5eed", last.snapshot, last.plan)
        _, kept = await served_.ask(f"{ROOT}/capsules", headers=ROOT_USER)
        _, past = await served_.ask(f"{ROOT}/capsules/5eed", headers=ROOT_USER)
        assert [one["metadata"]["name"] for one in kept["items"]] == ["5eed"]
        assert past["capsule"] == capsule["capsule"]
        other, _ = await served_.ask(f"{ROOT}/capsules/yesterday", headers=ROOT_USER)
    assert (live["kind"], live["status"]["outcome"]) == ("Run", "Pending")
    assert [one["reason"] for one in live["status"]["timeline"]] == ["ExceedsCluster"]
    assert over["status"] == {
        "outcome": "Failed",
        "queue": "red",
        "gpuSeconds": 7,
        "workers": 0,
        "runSeconds": 0,
        "attempts": 0,
        "failures": 0,
        "faults": 0,
        "restarts": 0,
        "steps": 0,
        "stepsOf": 0,
        "memoryPeakMiB": 0,
        "tail": ["boom"],
        "timelineLeftOut": 0,
        "timeline": [{"at": "1970-01-01T00:00:00Z", "what": "Evicted", "message": "for a job of another tenant"}],
    }
    assert [one["metadata"] for one in listed["items"]] == [{"name": "old", "namespace": "red", "uid": "u"}]
    assert "tail" not in listed["items"][0]["status"]
    assert (none, refused, other) == (404, [403, 403, 403], 404)
    assert [one["metadata"]["name"] for one in everywhere["items"]] == ["old"]
    assert [one["job"] for one in decisions["items"][0]["status"]["verdicts"]] == ["red/train"]
    read = Capsule.from_document(capsule["capsule"])
    assert differences(read, replayed(read)) == ()


async def test_a_run_says_what_the_ledger_charged_for_it_where_there_are_prices(tmp_path: Path) -> None:
    held: dict[str, Any] = {
        "namespace": "red",
        "queue": "red",
        "user": "",
        "idle": 0,
        "lost_to_preemption": 0,
        "lost_to_faults": 0,
    }
    charges = [
        UsageCharge(name="old", uid="u", gpu_class="H100", since=0, until=3600, used=3_600_000, **held),
        UsageCharge(name="old", uid="u", gpu_class="T4", since=3600, until=7200, used=1_800_000, **held),
        UsageCharge(name="other", uid="o", gpu_class="H100", since=0, until=3600, used=3_600_000, **held),
    ]
    async with served(tmp_path) as served_:
        recorder = served_.replica.operator.decision_recorder
        await recorder.drain()
        recorder.archive.add([RunRecord(namespace="red", name="old", uid="u", queue="red", outcome="Failed"), *charges])
        _, free = await served_.ask(f"{ROOT}/namespaces/red/runs/old")
        recorder.prices = parse_prices({"currency": "EUR", "classes": [{"gpuClass": "H100", "perGPUHour": "2.50"}]})
        recorder.clock = lambda: 10_000.0
        _, one = await served_.ask(f"{ROOT}/namespaces/red/runs/old")
        _, listed = await served_.ask(f"{ROOT}/namespaces/red/runs")
    cost = {"micros": 2_500_000, "currency": "EUR", "unpricedGPUSeconds": 1_800}
    assert ("cost" in free["status"], one["status"]["cost"]) == (False, cost)
    assert [item["status"]["cost"] for item in listed["items"]] == [cost]


async def test_what_a_change_of_the_cluster_would_do_is_for_those_who_may_ask_it(tmp_path: Path) -> None:
    path, change = f"{ROOT}/clusterwhatifs", {"spec": {"node": "n1", "act": "Cordon"}}
    async with served(tmp_path) as served_:
        refused, document = await served_.ask(path, method="POST", json=change)
    assert (refused, document["reason"]) == (403, "Forbidden")
    async with served(tmp_path, "alice create query.cotenant.dev/clusterwhatifs") as served_:
        code, document = await served_.ask(path, method="POST", json=change)
        missing, _ = await served_.ask(path, method="POST", json={"spec": {"node": "n9", "act": "Cordon"}})
    assert (code, missing, document["kind"]) == (200, 404, "ClusterWhatIf")
    unbacked = [{"queue": "red", "guaranteed": "4", "effective": "2"}]
    assert document["status"] == {
        "counts": {},
        "waiting": {"before": 1, "after": 1},
        "unbackedGuarantees": unbacked,
        "command": "kubectl cordon n1",
    }


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


async def test_a_suspended_job_is_listed_and_told_what_would_become_of_it(tmp_path: Path) -> None:
    async with served(tmp_path) as served_:
        for name, workers in (("fits", 2), ("large", 9)):
            document = submit(served_.replica.kube, name=name, workers=workers)
            document = document | {"spec": document["spec"] | {"suspend": True}, "status": {"phase": "Suspended"}}
            served_.replica.operator.cache.put(TRAINING_JOBS, document)
        _, listed = await served_.ask(f"{ROOT}/namespaces/red/explanations")
        _, fits = await served_.ask(f"{ROOT}/namespaces/red/explanations/fits")
        _, large = await served_.ask(f"{ROOT}/namespaces/red/explanations/large")
    standings = [(one["metadata"]["name"], one["status"]["standing"]) for one in listed["items"]]
    assert standings == [("train", "Waiting"), ("fits", "Suspended"), ("large", "Suspended")]
    assert fits["status"]["wouldStartIf"] == "it is resumed"
    assert large["status"]["ifResumed"].startswith("it would wait: ")


async def test_showback_is_of_a_namespace_for_its_tenants_and_of_all_for_administrators(tmp_path: Path) -> None:
    async with served(tmp_path) as served_:
        recorder = served_.replica.operator.decision_recorder
        for namespace, since in (("red", 100), ("red", 900), ("blue", 100)):
            one = UsageCharge(
                namespace=namespace, name="train", uid="u", queue="q", since=since, until=since + 10, used=5
            )
            recorder.archive.add([one])
        asked = "?since=50&until=500"
        _, own = await served_.ask(f"{ROOT}/namespaces/red/showbacks{asked}")
        _, everywhere = await served_.ask(f"{ROOT}/showbacks{asked}", headers=ROOT_USER)
        refused = [(await served_.ask(ROOT + path))[0] for path in ("/showbacks", "/namespaces/blue/showbacks")]
        _, this_month = await served_.ask(f"{ROOT}/namespaces/red/showbacks")
    assert [(one["metadata"]["namespace"], one["status"]["since"]) for one in own["items"]] == [("red", 100)]
    assert [one["metadata"]["namespace"] for one in everywhere["items"]] == ["red", "blue"]
    assert (refused, this_month["items"], own["metadata"]["truncated"]) == ([403, 403], [], False)
