"""The log of a pod, as the API server sends it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.client import Configuration

from cotenant.controller.client.kube import RefusedListError, UnreachableError
from cotenant.controller.client.rest import RestKube

PATH = "/api/v1/namespaces/red/pods/train-1-0/log"


@asynccontextmanager
async def client() -> AsyncIterator[RestKube]:
    """A client of a server that has a log, refuses it with `tailLines=403`, and breaks off with `follow=true`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.path == PATH
        if request.query.get("tailLines"):
            return web.json_response({"kind": "Status", "message": "no"}, status=int(request.query["tailLines"]))
        found = web.StreamResponse()
        await found.prepare(request)
        await found.write(b"step 1\n")
        if request.query.get("follow") and request.transport is not None:
            request.transport.abort()
        await found.write(b"step 2\n")
        return found

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as listening:
        configuration = Configuration()
        configuration.host = str(listening.make_url("")).rstrip("/")
        async with RestKube(lambda: configuration) as kube:
            yield kube


async def read(kube: RestKube, **query: str) -> bytes:
    async with kube.log("train-1-0", "red", query) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_a_log_is_read_to_its_end() -> None:
    async with client() as kube:
        assert await read(kube) == b"step 1\nstep 2\n"


async def test_a_refusal_is_known_before_the_first_line() -> None:
    async with client() as kube:
        with pytest.raises(RefusedListError) as refused:
            await read(kube, tailLines="403")
    assert (refused.value.code, str(refused.value)) == (403, "log of train-1-0 refused (403): no")


async def test_a_log_that_breaks_off_is_not_taken_for_one_that_has_ended() -> None:
    async with client() as kube:
        with pytest.raises(UnreachableError, match="log of train-1-0 broke"):
            await read(kube, follow="true")
