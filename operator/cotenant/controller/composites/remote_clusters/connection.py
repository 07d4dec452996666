"""The client of a RemoteCluster, made from its Secret, and made again if the Secret changes."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias, TypeVar

from kubernetes.client import Configuration

from cotenant.controller.client.kube import (
    SECRETS,
    BeforeWrite,
    FencedError,
    Kube,
    KubeWithLogs,
    Outcome,
    UnreachableError,
)
from cotenant.controller.client.rest import RestKube, RetryPolicy
from cotenant.controller.composites.remote_clusters.kubeconfig import configuration_of
from cotenant.controller.composites.remote_clusters.trouble import TroubleError, trouble_of

Connect: TypeAlias = Callable[[Configuration], AbstractAsyncContextManager[KubeWithLogs]]
T = TypeVar("T")

RETRY = RetryPolicy(attempts=3, call_timeout_s=5.0, max_backoff_s=1.0)
"""Few attempts: a cluster that does not answer is asked again at the next look."""
IN_FLIGHT = 4


def rest_connect(before_write: BeforeWrite) -> Connect:
    """A client over HTTP. `before_write` refuses the writes of a replica that no longer leads."""

    def connect(configuration: Configuration) -> AbstractAsyncContextManager[KubeWithLogs]:
        return RestKube(lambda: configuration, retry=RETRY, in_flight=IN_FLIGHT, before_write=before_write)

    return connect


class RemoteConnection:
    """A connection to another cluster, by at most one client at a time.

    All methods may raise TroubleError for the cluster there, and UnreachableError for the API server here.
    """

    def __init__(self, kube: Kube, connect: Connect, namespace: str) -> None:
        self._kube, self._connect, self._namespace = kube, connect, namespace
        self._stack = contextlib.AsyncExitStack()
        self._open: tuple[str, str] | None = None
        """Name and version of the Secret that the client was made from."""
        self._client: KubeWithLogs | None = None
        self._secret = ""
        self.server = ""

    async def client(self, secret: str) -> KubeWithLogs:
        """The client for the cluster that this Secret describes."""
        self._secret = secret
        reply = await self._kube.get(SECRETS, secret, self._namespace)
        if reply.outcome is Outcome.MISSING:
            await self.close()
            why = f"there is no Secret {secret} in namespace {self._namespace}: make it, with a kubeconfig"
            raise TroubleError("SecretMissing", why)
        if not reply.done:
            await self.close()
            why = (
                f"the operator may not read Secret {secret} in namespace {self._namespace}: add its name to the chart's"
                " value remoteClusters.kubeconfigSecrets"
            )
            raise TroubleError("SecretForbidden", why)
        version = (secret, str(reply.document["metadata"]["resourceVersion"]))
        if self._client is None or self._open != version:
            await self.close()
            configuration = configuration_of(reply.document, secret)
            try:
                self._client = await self._stack.enter_async_context(self._connect(configuration))
            except (ssl.SSLError, OSError, ValueError) as error:
                why = f"Secret {secret}: its certificates cannot be used ({error}); write a new kubeconfig into it"
                raise TroubleError("KubeconfigInvalid", why) from error
            self._open, self.server = version, str(configuration.host)
        return self._client

    async def ask(self, call: Awaitable[T]) -> T:
        """The answer to a call to the cluster there."""
        try:
            return await call
        except FencedError:
            raise
        except UnreachableError as error:
            raise trouble_of(error, self._secret) from error

    async def close(self) -> None:
        self._client = self._open = None
        await self._stack.aclose()
        self._stack = contextlib.AsyncExitStack()
