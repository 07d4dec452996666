"""The fence: a replica that does not lead writes nothing, and a write that may have been sent is not reported as
fenced.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from kubernetes.client import Configuration

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import PODS, FencedError, Outcome, UnreachableError
from cotenant.controller.client.rest import RestKube, RetryPolicy

POD = {"metadata": {"name": "one"}}
Answer = Callable[[], web.Response]


@asynccontextmanager
async def client(leads: list[bool], answer: Answer, in_flight: int = 2) -> AsyncIterator[tuple[RestKube, list[str]]]:
    """A client of a server with this answer, and the methods of the calls that the server received."""
    arrived: list[str] = []

    async def respond(request: web.Request) -> web.Response:
        arrived.append(request.method)
        return answer()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    fence = Fence(lambda: leads[-1])
    hasty = RetryPolicy(attempts=3, first_backoff_s=0.001)
    try:
        async with RestKube(lambda: configuration, retry=hasty, before_write=fence.check, in_flight=in_flight) as kube:
            yield kube, arrived
    finally:
        await runner.cleanup()


def done() -> web.Response:
    return web.json_response({"kind": "Pod"})


async def test_a_replica_that_does_not_lead_reads_and_none_of_its_writes_arrives() -> None:
    async with client([False], done) as (kube, arrived):
        read = await kube.get(PODS, "one", "red")
        for write in (
            kube.create(PODS, POD, "red"),
            kube.patch(PODS, "one", {}, namespace="red"),
            kube.delete(PODS, "one", "red"),
        ):
            with pytest.raises(FencedError, match=r"/api/v1/namespaces/red/pods.* was not sent"):
                await write
    assert (read.outcome, arrived) == (Outcome.DONE, ["GET"])


async def test_a_write_that_waited_in_line_while_another_replica_took_over_is_not_sent() -> None:
    leads = [True]

    def lose() -> web.Response:
        leads.append(False)
        return done()

    async with client(leads, lose, in_flight=1) as (kube, arrived):
        first, second = await asyncio.gather(
            kube.create(PODS, POD, "red"), kube.delete(PODS, "one", "red"), return_exceptions=True
        )
    assert (isinstance(first, BaseException), type(second), arrived) == (False, FencedError, ["POST"])


async def test_a_write_that_may_have_been_carried_out_is_uncertain_and_not_fenced() -> None:
    leads = [True]

    def lose() -> web.Response:
        leads.append(False)
        return web.json_response({"message": "etcd"}, status=500)

    async with client(leads, lose) as (kube, arrived):
        with pytest.raises(UnreachableError, match="an earlier attempt failed: 500 etcd") as raised:
            await kube.patch(PODS, "one", {}, namespace="red")
    assert (isinstance(raised.value, FencedError), arrived) == (False, ["PATCH"])
