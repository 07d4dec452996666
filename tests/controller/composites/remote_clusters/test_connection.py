"""The client of another cluster: opened from its Secret, anew when that has changed, with words for each failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from kubernetes.client import Configuration

from cotenant.controller.client.kube import (
    SECRETS,
    FencedError,
    MissingKindError,
    Outcome,
    RefusedListError,
    Reply,
    UnreachableError,
)
from cotenant.controller.composites.remote_clusters.connection import RemoteConnection
from cotenant.controller.composites.remote_clusters.trouble import TroubleError
from tests.controller.composites.remote_clusters.two_clusters import KUBECONFIG, SYSTEM, secret
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube


class Opened:
    """Clients that were opened, with those that were closed."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.closed = 0

    @asynccontextmanager
    async def connect(self, configuration: Configuration) -> AsyncIterator[Any]:
        self.hosts.append(str(configuration.host))
        try:
            yield FakeKube()
        finally:
            self.closed += 1


async def test_a_client_is_opened_once_and_anew_when_its_secret_has_changed() -> None:
    kube, opened = FakeKube(), Opened()
    kube.put(SECRETS, secret())
    connection = RemoteConnection(kube, opened.connect, SYSTEM)
    first = await connection.client("there")
    assert await connection.client("there") is first
    other = {"name": "there", "cluster": {"server": "https://second.example"}}
    kube.put(SECRETS, secret(KUBECONFIG | {"clusters": [other]}))
    assert await connection.client("there") is not first
    assert (opened.hosts, opened.closed, connection.server) == (
        ["https://there.example", "https://second.example"],
        1,
        "https://second.example",
    )
    await connection.close()
    assert opened.closed == 2


async def test_a_secret_that_may_not_be_read_names_the_value_of_the_chart() -> None:
    kube = FakeKube(Fault(call="GET secrets/there", answer=Reply(Outcome.REFUSED, message="forbidden", code=403)))
    with pytest.raises(TroubleError) as error:
        await RemoteConnection(kube, Opened().connect, SYSTEM).client("there")
    assert error.value.reason == "SecretForbidden"
    assert "remoteClusters.kubeconfigSecrets" in error.value.message


async def test_certificates_that_cannot_be_used_are_a_trouble_of_the_secret() -> None:
    def connect(_: Configuration) -> AbstractAsyncContextManager[Any]:
        raise OSError("no such file")

    kube = FakeKube()
    kube.put(SECRETS, secret())
    with pytest.raises(TroubleError) as error:
        await RemoteConnection(kube, connect, SYSTEM).client("there")
    assert error.value.reason == "KubeconfigInvalid"


@pytest.mark.parametrize(
    ("error", "reason", "says"),
    [
        (MissingKindError("404"), "NoCotenant", "install Cotenant there"),
        (RefusedListError("list of trainingjobs refused (401): Unauthorized", 401), "Unauthorized", "has expired"),
        (RefusedListError("list of trainingjobs refused (403): no", 403), "Forbidden", "cotenant-remote-jobs"),
        (UnreachableError("GET failed 3 times; last: 401 Unauthorized"), "Unreachable", "401 Unauthorized"),
        (UnreachableError("certificate verify failed"), "Unreachable", "certificate verify failed"),
    ],
)
async def test_each_answer_of_the_cluster_says_what_to_do(error: Exception, reason: str, says: str) -> None:
    async def call() -> None:
        raise error

    with pytest.raises(TroubleError) as raised:
        await RemoteConnection(FakeKube(), Opened().connect, SYSTEM).ask(call())
    assert raised.value.reason == reason
    assert says in raised.value.message


async def test_a_write_of_a_leader_that_leads_no_more_is_no_trouble_of_the_cluster() -> None:
    async def call() -> None:
        raise FencedError("not sent")

    with pytest.raises(FencedError):
        await RemoteConnection(FakeKube(), Opened().connect, SYSTEM).ask(call())
