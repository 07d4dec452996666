"""One keeper for each RemoteCluster, once the replica has taken over; and none holds up another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kubernetes.client import Configuration

from cotenant.controller.client.kube import REMOTE_CLUSTERS, SECRETS
from tests.controller.composites.remote_clusters.two_clusters import (
    KUBECONFIG,
    FarKube,
    TwoClusters,
    remote_cluster,
    secret,
)
from tests.controller.execution.replica import simulate_time

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


def with_a_silent_one(two: TwoClusters) -> None:
    """`silent` comes before `there`, and never answers."""
    kube = two.here.kube
    silent = {"name": "there", "cluster": {"server": "https://silent.example"}}
    kubeconfig = secret(KUBECONFIG | {"clusters": [silent]})
    kube.put(SECRETS, kubeconfig | {"metadata": kubeconfig["metadata"] | {"name": "silent"}})
    kube.put(REMOTE_CLUSTERS, remote_cluster(kubeconfigSecret="silent") | {"metadata": {"name": "silent"}})
    registry, fence = two.here.operator.remote_clusters, two.fence

    @asynccontextmanager
    async def connect(configuration: Configuration) -> AsyncIterator[Any]:
        if configuration.host == "https://silent.example":
            await asyncio.sleep(1_000_000)
        yield FarKube(two.there.kube, lambda: True, fence)

    registry.connect = connect


async def test_a_cluster_that_does_not_answer_holds_up_no_other() -> None:
    two = TwoClusters()
    with_a_silent_one(two)
    await two.here.operator.loop._restore()
    running = asyncio.create_task(two.here.operator.remote_clusters.run())
    await asyncio.sleep(10)
    running.cancel()
    assert two.remote()["reachable"] == "True"


async def test_keepers_run_once_the_replica_has_taken_over_and_while_the_remote_cluster_is_there() -> None:
    two = TwoClusters()
    registry = two.here.operator.remote_clusters
    seen = []
    registry.start_and_stop()
    seen.append(sorted(registry._tasks))
    await two.here.operator.loop._restore()
    for leads, there in ((True, True), (False, True), (True, True), (True, False)):
        two.here.leads = leads
        if not there:
            two.here.kube.remove(REMOTE_CLUSTERS, "there")
            two.here.kube.deliver(two.here.operator.feed.on_event)
        registry.start_and_stop()
        seen.append(sorted(registry._tasks))
        await asyncio.sleep(1)
    assert seen == [[], ["there"], [], ["there"], []]


async def test_the_series_of_a_cluster_go_with_it() -> None:
    two = TwoClusters()
    await two.look()
    metrics = two.here.operator.metrics
    labels = {"cluster": "there"}
    assert metrics.registry.get_sample_value("cotenant_remote_cluster_reachable", labels) == 1.0
    metrics.forget_remote_cluster("there")
    metrics.forget_remote_cluster("there")
    assert metrics.registry.get_sample_value("cotenant_remote_cluster_reachable", labels) is None
