"""The thread of the Lease beside a busy event loop: what it reports, how it ends, and that it gives the Lease back."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, cast

import pytest

from cotenant.controller.client.kube import LEASES, Reply, Resource, StaleTrustError
from cotenant.controller.client.rest import RestKube
from cotenant.controller.leader.election import LeaderElector, LeaseTimes
from cotenant.controller.leader.lease_thread import LeaseThread
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

TIMES = LeaseTimes(lease_s=60.0, renew_deadline_s=30.0, poll_s=0.02)


class OpenKube(FakeKube):
    """The double with the doors of the REST client; `open` counts who is inside."""

    open = 0
    broken: Exception | None = None

    def is_called_on(self) -> bool:
        """Wait until the thread has called a few times more. It blocks whoever asks."""
        before, until = len(self.calls), time.monotonic() + 20
        while len(self.calls) < before + 5 and time.monotonic() < until:
            time.sleep(0.01)
        return len(self.calls) >= before + 5

    async def __aenter__(self) -> OpenKube:
        self.open += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open -= 1

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Reply:
        if self.broken is not None:
            raise self.broken
        return await super().get(resource, name, namespace)


def lease_of(kube: OpenKube) -> tuple[LeaseThread, LeaderElector]:
    elector = LeaderElector(kube, namespace="default", name="operator", identity="one", times=TIMES)
    return LeaseThread(cast(RestKube, kube), elector), elector


def holder(kube: OpenKube) -> str | None:
    found = kube.stored(LEASES, "operator", "default")
    return found["spec"]["holderIdentity"] if found else None


async def started(kube: OpenKube) -> tuple[LeaseThread, LeaderElector, asyncio.Task[None], list[Any]]:
    """A thread that leads, and what it has reported: (leads, thread of the call)."""
    lease, elector = lease_of(kube)
    reports: list[Any] = []
    leads = asyncio.Event()

    def on_change(is_leader: bool) -> None:
        reports.append((is_leader, threading.current_thread()))
        leads.set()

    task = asyncio.create_task(lease.run(on_change))
    async with asyncio.timeout(20.0):
        await leads.wait()
    return lease, elector, task, reports


async def test_leadership_is_reported_in_the_loop_of_the_caller() -> None:
    lease, elector, task, reports = await started(OpenKube())
    assert (reports, elector.is_leader) == ([(True, threading.main_thread())], True)
    task.cancel()
    await lease.stop()


async def test_the_lease_is_renewed_while_the_loop_of_the_caller_is_blocked() -> None:
    kube = OpenKube()
    lease, elector, task, _ = await started(kube)
    assert kube.is_called_on(), "this blocks the loop: that is what the thread is there for"
    assert elector.is_leader
    task.cancel()
    await lease.stop()


async def test_a_cancelled_run_leads_on_until_the_thread_is_stopped_and_the_lease_is_free_then() -> None:
    kube = OpenKube()
    lease, elector, task, reports = await started(kube)
    task.cancel()
    await asyncio.wait({task})
    assert await asyncio.to_thread(kube.is_called_on)
    before = (elector.is_leader, holder(kube), kube.open)
    await lease.stop()
    await asyncio.sleep(0)
    assert before == (True, "one", 1)
    assert (elector.is_leader, holder(kube), kube.open, [leads for leads, _ in reports]) == (
        False,
        "",
        0,
        [True, False],
    )


async def test_a_lease_that_cannot_be_given_back_is_left_to_expire(caplog: pytest.LogCaptureFixture) -> None:
    kube = OpenKube()
    lease, elector, task, _ = await started(kube)
    task.cancel()
    kube.faults.add(*(Fault(call="* leases/operator", lost="request") for _ in range(100)))
    await lease.stop()
    assert (elector.is_leader, holder(kube), kube.open) == (False, "one", 0)
    assert any(message.startswith("the lease could not be given back: ") for message in caplog.messages)


@pytest.mark.parametrize("broken", [ValueError("a fault of the program"), StaleTrustError("it was renewed")])
async def test_an_error_of_the_thread_ends_the_run_of_the_caller_with_it(broken: Exception) -> None:
    """One such error is a renewed certificate authority, which only a new process trusts."""
    kube = OpenKube()
    kube.broken = broken
    lease, _ = lease_of(kube)
    with pytest.raises(RuntimeError, match="the thread of the Lease has ended") as error:
        async with asyncio.timeout(5.0):
            await lease.run(lambda is_leader: None)
    assert (error.value.__cause__, kube.open) == (broken, 0)
    await lease.stop()


async def test_stopping_what_was_never_started_does_nothing() -> None:
    kube = OpenKube()
    await lease_of(kube)[0].stop()
    assert (kube.calls, kube.open) == ([], 0)
