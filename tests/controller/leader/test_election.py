"""Leader election on a Lease; time is the test's own, so nothing waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kubernetes.client import Configuration

from cotenant.controller.client.kube import LEASES, Kube
from cotenant.controller.client.rest import RestKube
from cotenant.controller.leader.election import LeaderElector, LeaseTimes
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

TIMES = LeaseTimes()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def kube() -> Kube:
    """A double; `tests/live` has the same tests on a real API server."""
    return FakeKube()


def replica(kube: Kube, name: str, lease: str, clock: Clock) -> LeaderElector:
    return LeaderElector(kube, namespace="default", name=lease, identity=name, clock=clock)


async def holder(kube: Kube, lease: str) -> str:
    found = await kube.get(LEASES, lease, "default")
    return str(found.document["spec"]["holderIdentity"])


@asynccontextmanager
async def pair(kube: Kube, lease: str) -> AsyncIterator[tuple[Clock, LeaderElector, LeaderElector]]:
    """Replica one, that has taken the Lease, and replica two, that has seen it taken."""
    clock = Clock()
    one, two = (replica(kube, name, lease, clock) for name in ("one", "two"))
    await one.try_acquire_or_renew()
    await two.try_acquire_or_renew()
    yield clock, one, two


async def test_the_first_leads_and_the_second_does_not(kube: Kube) -> None:
    async with pair(kube, "first") as (_, one, two):
        assert (one.is_leader, two.is_leader, await holder(kube, "first")) == (True, False, "one")


async def test_a_leader_that_is_killed_is_replaced_when_its_lease_has_not_moved_for_its_whole_length(
    kube: Kube,
) -> None:
    async with pair(kube, "killed") as (clock, one, two):
        clock.now += TIMES.lease_s - 0.1
        await two.try_acquire_or_renew()
        early = two.is_leader
        clock.now += 0.1
        await two.try_acquire_or_renew()
        assert (early, two.is_leader, one.is_leader, await holder(kube, "killed")) == (False, True, False, "two")


async def test_a_leader_that_is_killed_and_comes_back_waits_like_everybody_else(kube: Kube) -> None:
    async with pair(kube, "back") as (clock, _, two):
        again = replica(kube, "one_again", "back", clock)
        clock.now += 3.0
        await again.try_acquire_or_renew()
        early = again.is_leader
        clock.now += TIMES.lease_s - 3.0
        await again.try_acquire_or_renew()
        await two.try_acquire_or_renew()
        assert (early, again.is_leader, two.is_leader, await holder(kube, "back")) == (False, False, True, "two")


async def test_a_leader_that_cannot_renew_stops_before_another_may_start(kube: Kube) -> None:
    async with pair(kube, "fenced") as (clock, one, two):
        clock.now += TIMES.renew_deadline_s
        await two.try_acquire_or_renew()
        assert (one.is_leader, two.is_leader) == (False, False)
        assert TIMES.renew_deadline_s < TIMES.lease_s


async def test_a_leader_that_renews_stays_leader_whatever_time_passes(kube: Kube) -> None:
    async with pair(kube, "renewed") as (clock, one, two):
        led = []
        for _ in range(20):
            clock.now += TIMES.poll_s
            await one.try_acquire_or_renew()
            await two.try_acquire_or_renew()
            led.append((one.is_leader, two.is_leader))
        assert led == [(True, False)] * 20


async def test_a_lease_that_is_released_is_taken_at_once(kube: Kube) -> None:
    async with pair(kube, "released") as (_, one, two):
        await one.release()
        await two.try_acquire_or_renew()
        assert (one.is_leader, two.is_leader, await holder(kube, "released")) == (False, True, "two")


@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "emptied"])
async def test_a_lease_that_somebody_takes_from_its_leader_is_not_free_at_once(kube: Kube, deleted: bool) -> None:
    name = "deleted" if deleted else "emptied"
    async with pair(kube, name) as (clock, one, two):
        if deleted:
            await kube.delete(LEASES, name, "default")
        else:
            fields = ("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions")
            await kube.patch(LEASES, name, {"spec": dict.fromkeys(fields)}, namespace="default")
        await two.try_acquire_or_renew()
        at_once = (one.is_leader, two.is_leader)
        clock.now += TIMES.lease_s
        await two.try_acquire_or_renew()
        assert (at_once, one.is_leader, two.is_leader, await holder(kube, name)) == ((True, False), False, True, "two")


async def test_a_leader_whose_lease_was_deleted_makes_it_anew_and_leads_on(kube: Kube) -> None:
    async with pair(kube, "anew") as (clock, one, two):
        await kube.delete(LEASES, "anew", "default")
        clock.now += TIMES.poll_s
        await one.try_acquire_or_renew()
        await two.try_acquire_or_renew()
        assert (one.is_leader, two.is_leader, await holder(kube, "anew")) == (True, False, "one")


async def test_a_leader_that_was_replaced_while_it_slept_learns_it_from_its_next_renewal(kube: Kube) -> None:
    async with pair(kube, "slept") as (clock, one, two):
        clock.now += TIMES.lease_s
        await two.try_acquire_or_renew()
        await one.try_acquire_or_renew()
        assert (one.is_leader, two.is_leader, await holder(kube, "slept")) == (False, True, "two")


async def test_of_many_that_start_together_exactly_one_leads(kube: Kube) -> None:
    clock = Clock()
    replicas = [replica(kube, f"r{index}", "crowd", clock) for index in range(8)]
    await asyncio.gather(*(one.try_acquire_or_renew() for one in replicas))
    assert sum(one.is_leader for one in replicas) == 1


async def read_in_silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_a_lease_that_nobody_answers_for_is_told_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    configuration = Configuration()
    async with await asyncio.start_server(read_in_silence, "127.0.0.1", 0) as silent:
        configuration.host = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        async with RestKube(lambda: configuration) as kube:
            times = LeaseTimes(renew_deadline_s=0.05)
            lease = LeaderElector(kube, namespace="a", name="b", identity="c", times=times)
            running = asyncio.create_task(lease.run(lambda is_leader: None))
            async with asyncio.timeout(20):
                while not caplog.messages:  # noqa: ASYNC110 - a line of the log is no event
                    await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.wait({running})
    assert caplog.messages[0] == "lease a/b cannot be renewed: no answer within 0.05 s"


async def leading(kube: FakeKube, name: str, clock: Clock) -> tuple[LeaderElector, list[bool]]:
    """A replica that leads and renews no more by itself, and all changes that it has told."""
    elector, changes = replica(kube, "one", name, clock), list[bool]()
    running = asyncio.create_task(elector.run(changes.append))
    while not changes:  # noqa: ASYNC110 - until it leads
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    return elector, changes


async def test_a_leadership_that_was_regained_while_a_renewal_waited_was_lost_in_between() -> None:
    kube, clock = FakeKube(), Clock()
    elector, changes = await leading(kube, "interrupted", clock)
    clock.now += TIMES.renew_deadline_s - 0.1  # the renewal is sent in time, and answered late

    def answer_late() -> None:
        clock.now += 0.2

    kube.faults.add(Fault(call="PATCH leases/interrupted", first=answer_late))
    await elector.try_acquire_or_renew()
    assert (changes, elector.is_leader) == ([True, False], True)


@pytest.mark.parametrize("taken", [False, True], ids=["its own write", "a write of another"])
async def test_a_renewal_that_is_repeated_after_a_slow_answer_costs_no_leadership(taken: bool) -> None:
    """The API server carried out the first attempt and answered too late: the second one meets another version."""
    kube, clock = FakeKube(), Clock()
    elector, changes = await leading(kube, "slow", clock)
    clock.now += TIMES.poll_s
    written = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"} | ({"holderIdentity": "two"} if taken else {})}
    await kube.patch(LEASES, "slow", written, namespace="default")
    await elector.try_acquire_or_renew()
    assert (changes, elector.is_leader) == ([True], not taken)
