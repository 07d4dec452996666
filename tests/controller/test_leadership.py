"""Who leads, against a real Lease on the real API server; time is the test's own, so nothing waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from cotenant.controller.kube import LEASES
from cotenant.controller.leadership import Leadership, LeaseTimes
from cotenant.controller.rest import RestKube, load_configuration

if TYPE_CHECKING:
    from cotenant_local.lifecycle import Cluster

pytestmark = pytest.mark.cluster
TIMES = LeaseTimes()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def client(cluster: Cluster) -> AsyncIterator[RestKube]:
    async with RestKube(lambda: load_configuration(str(cluster.kubeconfig))) as kube:
        yield kube


def replica(kube: RestKube, name: str, lease: str, clock: Clock) -> Leadership:
    return Leadership(kube, namespace="default", name=lease, identity=name, clock=clock)


async def holder(kube: RestKube, lease: str) -> str:
    found = await kube.get(LEASES, lease, "default")
    return str(found.document["spec"]["holderIdentity"])


async def test_the_first_leads_and_the_second_does_not(api_server: Cluster) -> None:
    clock = Clock()
    async with client(api_server) as kube:
        one, two = (replica(kube, name, "first", clock) for name in ("one", "two"))
        await one.step()
        await two.step()
        assert (one.leads, two.leads, await holder(kube, "first")) == (True, False, "one")


async def test_a_leader_that_is_killed_is_replaced_when_its_lease_has_not_moved_for_its_whole_length(
    api_server: Cluster,
) -> None:
    clock = Clock()
    async with client(api_server) as kube:
        one, two = (replica(kube, name, "killed", clock) for name in ("one", "two"))
        await one.step()
        await two.step()
        clock.now += TIMES.lease_s - 0.1
        await two.step()
        early = two.leads
        clock.now += 0.1
        await two.step()
        assert (early, two.leads, one.leads, await holder(kube, "killed")) == (False, True, False, "two")


async def test_a_leader_that_cannot_renew_stops_before_another_may_start(api_server: Cluster) -> None:
    clock = Clock()
    async with client(api_server) as kube:
        one, two = (replica(kube, name, "fenced", clock) for name in ("one", "two"))
        await one.step()
        await two.step()
        clock.now += TIMES.renew_deadline_s
        await two.step()
        assert (one.leads, two.leads) == (False, False)
        assert TIMES.renew_deadline_s < TIMES.lease_s


async def test_a_leader_that_renews_stays_leader_whatever_time_passes(api_server: Cluster) -> None:
    clock = Clock()
    async with client(api_server) as kube:
        one, two = (replica(kube, name, "renewed", clock) for name in ("one", "two"))
        led = []
        for _ in range(20):
            await one.step()
            await two.step()
            led.append((one.leads, two.leads))
            clock.now += TIMES.poll_s
        assert led == [(True, False)] * 20


async def test_a_lease_that_is_released_is_taken_at_once(api_server: Cluster) -> None:
    clock = Clock()
    async with client(api_server) as kube:
        one, two = (replica(kube, name, "released", clock) for name in ("one", "two"))
        await one.step()
        await one.release()
        await two.step()
        assert (one.leads, two.leads, await holder(kube, "released")) == (False, True, "two")


async def test_a_leader_that_was_replaced_while_it_slept_learns_it_from_its_next_renewal(api_server: Cluster) -> None:
    clock = Clock()
    async with client(api_server) as kube:
        one, two = (replica(kube, name, "slept", clock) for name in ("one", "two"))
        await one.step()
        await two.step()
        clock.now += TIMES.lease_s
        await two.step()
        await one.step()
        assert (one.leads, two.leads, await holder(kube, "slept")) == (False, True, "two")


async def test_of_many_that_start_together_exactly_one_leads(api_server: Cluster) -> None:
    clock = Clock()
    async with client(api_server) as kube:
        replicas = [replica(kube, f"r{index}", "crowd", clock) for index in range(8)]
        await asyncio.gather(*(one.step() for one in replicas))
        assert sum(one.leads for one in replicas) == 1
