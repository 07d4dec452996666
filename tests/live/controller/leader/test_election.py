"""Leader election, as `tests/controller/leader/test_election.py` tells it, on a Lease of a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from cotenant.controller.client.credentials import load_configuration
from cotenant.controller.client.kube import Kube
from cotenant.controller.client.rest import RestKube
from tests.controller.leader.test_election import *  # noqa: F403  # the tests themselves

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture  # type: ignore[no-redef]  # in place of the double
async def kube(
    api_server: Cluster,
) -> AsyncIterator[Kube]:
    async with RestKube(lambda: load_configuration(str(api_server.kubeconfig))) as client:
        yield client
