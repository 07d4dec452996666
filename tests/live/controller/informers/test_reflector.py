"""A list and then a watch: nothing is missed and nothing stays that is gone, whatever becomes of the watch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from kubernetes.client import Configuration

from cotenant.controller.client.credentials import load_configuration
from cotenant.controller.client.rest import RestKube

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

from tests.controller.informers.feed.test_reflector import CONFIG_MAPS, NAMESPACE, Seen, change, make


@pytest.mark.cluster
async def test_the_real_api_server_is_followed_though_it_takes_a_token_no_more(api_server: Cluster) -> None:
    given_out: list[Configuration] = []

    def rotating() -> Configuration:
        configuration = load_configuration(str(api_server.kubeconfig))
        if not given_out:
            configuration.cert_file = configuration.key_file = None
            configuration.api_key["BearerToken"] = "Bearer stale"
        given_out.append(configuration)
        return configuration

    async with RestKube(lambda: load_configuration(str(api_server.kubeconfig))) as kube, RestKube(rotating) as stale:
        now = (await kube.list(CONFIG_MAPS)).version
        seen = Seen(stale)
        seen.reflector._version = now  # the first call is a watch
        task = asyncio.create_task(seen.reflector.run())
        try:
            await make(kube, "reflected")
            await change(kube, "reflected", "größer")
            await seen.until(lambda: seen.data.get("reflected") == "größer")
            await kube.delete(CONFIG_MAPS, "reflected", NAMESPACE)
            await seen.until(lambda: "reflected" not in seen.objects)
        finally:
            task.cancel()
        assert ("list" in seen.news, len(given_out)) == (False, 2)
