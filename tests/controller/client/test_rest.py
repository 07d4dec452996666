"""The client without a cluster: which calls go first, and what it makes of answers that pass."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.client import Configuration

from cotenant.controller.client.kube import (
    EVENTS,
    PODS,
    SECRETS,
    FailedWebhookError,
    FailingServerError,
    Outcome,
    StaleTrustError,
    UnreachableError,
)
from cotenant.controller.client.rest import RestKube, RetryPolicy, priority_of
from tests.support.certificates import write_certificate

WEBHOOK = 'Internal error occurred: failed calling webhook "validate.kyverno.svc-fail": no endpoints available'
BUSY = "etcdserver: request timed out"
HASTY = RetryPolicy(attempts=4, first_backoff_s=0.001)


@dataclass
class Answering:
    """A server that gives these answers in turn: an error of the server by its message, "" for success, and None for a
    connection that breaks.
    """

    messages: Sequence[str | None]
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        message = self.messages[len(self.asked)]
        self.asked.append(request.path)
        if message is None and request.transport is not None:
            request.transport.abort()
        body: dict[str, Any] = {"kind": "Status", "reason": "InternalError", "message": message}
        return web.json_response(body, status=500) if message else web.json_response({"kind": "Pod"}, status=201)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[RestKube]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        async with TestServer(app) as listening:
            configuration = Configuration()
            configuration.host = str(listening.make_url("")).rstrip("/")
            async with RestKube(lambda: configuration, retry=HASTY) as kube:
                yield kube


def test_commits_go_before_pods_and_pods_before_events() -> None:
    calls = [("POST", EVENTS), ("GET", SECRETS), ("POST", SECRETS), ("DELETE", SECRETS), ("PATCH", SECRETS)]
    assert [priority_of(method, resource.path("red")) for method, resource in calls] == [2, 1, 1, 0, 0]


async def test_a_webhook_that_does_not_answer_has_refused_the_write_by_the_third_attempt() -> None:
    server = Answering([WEBHOOK] * 4)
    async with server.client() as kube:
        with pytest.raises(FailedWebhookError) as raised:
            await kube.create(PODS, {"metadata": {"name": "a"}}, "red")
    assert (str(raised.value), len(server.asked)) == (WEBHOOK, 3)


async def test_a_webhook_that_answers_again_costs_nothing() -> None:
    async with Answering([WEBHOOK, WEBHOOK, ""]).client() as kube:
        assert (await kube.create(PODS, {"metadata": {"name": "a"}}, "red")).outcome is Outcome.DONE


@pytest.mark.parametrize("whole", [True, False])
async def test_a_list_whose_pages_expire_again_and_again_is_had_in_one_piece(whole: bool) -> None:
    """This happens if a page takes longer than etcd keeps its history."""
    asked: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        if "continue" in request.query or not (whole or "limit" in request.query):
            return web.json_response({"code": 410, "message": "expired"}, status=410)
        more = {"continue": "next"} if "limit" in request.query else {}
        named = [{"metadata": {"name": name}} for name in (["a"] if more else ["a", "b"])]
        return web.json_response({"metadata": {"resourceVersion": "7", **more}, "items": named})

    app, configuration = web.Application(), Configuration()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as listening:
        configuration.host = str(listening.make_url("")).rstrip("/")
        async with RestKube(lambda: configuration, retry=HASTY) as kube:
            if whole:
                listing = await kube.list(SECRETS)
                assert ([one["metadata"]["name"] for one in listing.items], listing.version) == (["a", "b"], 7)
            else:
                with pytest.raises(UnreachableError, match="in one piece"):
                    await kube.list(SECRETS)
    assert [sorted(one) for one in asked] == [["limit"], ["continue", "limit"]] * 2 + [[]]


async def test_what_became_of_a_write_is_open_if_one_attempt_ended_in_another_way() -> None:
    async with Answering([BUSY, WEBHOOK, WEBHOOK, WEBHOOK]).client() as kube:
        with pytest.raises(UnreachableError) as raised:
            await kube.create(PODS, {"metadata": {"name": "a"}}, "red")
    assert not isinstance(raised.value, FailedWebhookError)


@pytest.mark.parametrize(
    ("answers", "error"),
    [([BUSY] * 4, FailingServerError), ([BUSY, None, BUSY, BUSY], UnreachableError)],
    ids=["it answers each attempt", "a connection broke once"],
)
async def test_a_server_that_keeps_failing_is_told_apart_from_one_that_is_not_reached(
    answers: list[str | None], error: type[Exception]
) -> None:
    async with Answering(answers).client() as kube:
        with pytest.raises(UnreachableError, match=r"failed 4 times; last: 500 etcd") as raised:
            await kube.create(PODS, {"metadata": {"name": "a"}}, "red")
    assert type(raised.value) is error


async def test_a_renewed_authority_of_the_api_server_is_told_apart_from_a_server_that_is_not_trusted(
    tmp_path: Path,
) -> None:
    """Certificates are rotated in a mounted file; a process that goes on with the old one reaches nothing any more."""
    served, mounted = tmp_path / "served", tmp_path / "mounted"
    for folder in (served, mounted):
        folder.mkdir()
        write_certificate(folder, "localhost")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(served / "tls.crt", served / "tls.key")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Answering([""] * 9).answer)
    configuration, raised = Configuration(), list[type[Exception]]()
    listening = TestServer(app, scheme="https", host="localhost")
    await listening.start_server(ssl=context)
    configuration.host, configuration.ssl_ca_cert = f"https://localhost:{listening.port}", str(mounted / "tls.crt")
    async with RestKube(lambda: configuration, retry=HASTY) as kube:
        for _ in range(2):
            with pytest.raises(UnreachableError) as error:
                await kube.get(PODS, "a", "red")
            raised.append(type(error.value))
            shutil.copy(served / "tls.crt", mounted / "tls.crt")
    async with RestKube(lambda: configuration, retry=HASTY) as kube:
        assert (await kube.get(PODS, "a", "red")).outcome is Outcome.DONE
    await listening.close()
    assert raised == [UnreachableError, StaleTrustError]


async def test_a_call_in_line_is_sent_with_the_credentials_that_were_read_again_meanwhile() -> None:
    answers = iter((401, 200, 200))

    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(0.05)  # the other call gets in line
        return web.json_response({"kind": "Pod"}, status=next(answers))

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as listening:
        configuration = Configuration()
        configuration.host = str(listening.make_url("")).rstrip("/")
        async with RestKube(lambda: configuration, retry=HASTY, in_flight=1) as kube:
            replies = await asyncio.gather(*(kube.get(PODS, name, "red") for name in ("a", "b")))
    assert [reply.done for reply in replies] == [True, True]
