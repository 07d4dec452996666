"""The promises of `tests/controller/client/test_kube.py`, kept by a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from cotenant.controller.client.credentials import load_configuration
from cotenant.controller.client.kube import PODS, QUEUES, TRAINING_JOBS, Kube
from cotenant.controller.client.rest import RestKube
from tests.controller.client.test_kube import *  # noqa: F403  # the tests themselves
from tests.controller.client.test_kube import CONFIG_MAPS, NAMESPACE
from tests.live.controller.operator_process.replicas import prepare

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture  # type: ignore[no-redef]  # in place of the double
async def kube(
    api_server: Cluster,
) -> AsyncIterator[Kube]:
    """An empty namespace for the promises."""
    async with RestKube(lambda: load_configuration(str(api_server.kubeconfig))) as client:
        await prepare(client, NAMESPACE, 8)
        try:
            yield client
        finally:
            await client.delete(QUEUES, NAMESPACE)  # its guarantee would shrink those of the tests that come after
            for resource in (CONFIG_MAPS, TRAINING_JOBS, PODS):
                for found in (await client.list(resource, NAMESPACE)).items:
                    await client.delete(resource, found["metadata"]["name"], NAMESPACE, grace_s=0)
