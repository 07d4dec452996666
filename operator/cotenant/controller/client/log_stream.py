"""The log of a pod as the API server sends it, for as long as it is followed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

import aiohttp
from kubernetes.client import Configuration

from cotenant.controller.client.credentials import authorization, way_to
from cotenant.controller.client.kube import PODS, RefusedListError, UnreachableError
from cotenant.controller.client.replies import read_reply

QUIET_S: Final = 300.0
"""A log without any data for this long is given up: its reader may be gone. A reader that is there asks again."""


@contextlib.asynccontextmanager
async def log_of(
    session: aiohttp.ClientSession, configuration: Configuration, pod: tuple[str, str], query: Mapping[str, str]
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Chunks of the log of this pod (namespace, name). Raises RefusedListError and UnreachableError."""
    namespace, name = pod
    try:
        async with session.get(
            configuration.host + PODS.path(namespace, name, "log"),
            params=query,
            headers=authorization(configuration) | {"Accept": "*/*"},
            **way_to(configuration),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=QUIET_S),
        ) as response:
            if response.status != 200:
                refusal = read_reply(response.status, await response.read())
                raise RefusedListError(f"log of {name} refused ({refusal.code}): {refusal.message}", refusal.code)
            yield response.content.iter_any()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UnreachableError(f"log of {name} broke: {type(error).__name__}: {error}") from error
