"""The client without a cluster: which calls go first, and what it makes of answers that pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.client import Configuration

from cotenant.controller.client.kube import EVENTS, PODS, SECRETS, FailedWebhookError, Outcome, UnreachableError
from cotenant.controller.client.rest import RestKube, RetryPolicy, priority_of

WEBHOOK = 'Internal error occurred: failed calling webhook "validate.kyverno.svc-fail": no endpoints available'
BUSY = "etcdserver: request timed out"
HASTY = RetryPolicy(attempts=4, first_backoff_s=0.001)


@dataclass
class Answering:
    """A server that gives these answers in turn: an error of the server by its message, "" for success."""

    messages: Sequence[str]
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        message = self.messages[len(self.asked)]
        self.asked.append(request.path)
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


async def test_what_became_of_a_write_is_open_if_one_attempt_ended_in_another_way() -> None:
    async with Answering([BUSY, WEBHOOK, WEBHOOK, WEBHOOK]).client() as kube:
        with pytest.raises(UnreachableError) as raised:
            await kube.create(PODS, {"metadata": {"name": "a"}}, "red")
    assert not isinstance(raised.value, FailedWebhookError)
