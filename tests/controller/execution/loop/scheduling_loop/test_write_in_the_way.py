"""Plans for jobs of which a write is under way, or that have changed since."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from cotenant.controller.client.kube import TRAINING_JOBS, Reply, Resource
from cotenant.core.model.plan import Action, Admit, Evict, EvictionKind, Plan
from tests.controller.execution.replica import (
    SETTINGS,
    Replica,
    end_pods,
    granted,
    phase,
    start_pods,
    status,
    submit,
    writes,
)

pytestmark = pytest.mark.looptime


class SlowWrites:
    """Holds patches of one job back until they are let go, and counts how many are under way at once."""

    def __init__(self, replica: Replica, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.job, self.under_way, self.most = job, 0, 0
        self.go = asyncio.Event()
        self._patch = replica.kube.patch
        monkeypatch.setattr(replica.kube, "patch", self.patch)

    async def patch(self, resource: Resource, name: str, body: Mapping[str, Any], **where: str) -> Reply:
        if name != self.job:
            return await self._patch(resource, name, body, **where)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.go.wait()
        self.under_way -= 1
        return await self._patch(resource, name, body, **where)


async def test_what_a_plan_has_for_a_job_that_is_being_written_waits_for_that_write_and_is_planned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = Replica()
    replica.operator.loop.settings = SETTINGS.model_copy(update={"tick_s": 600.0})
    submit(replica.kube)
    await replica.run()
    slow = SlowWrites(replica, "second", monkeypatch)
    submit(replica.kube, "second")
    await replica.run()
    assert (slow.under_way, phase(replica.kube, "second")) == (1, None)
    replica.kube.remove(TRAINING_JOBS, "train", "red")
    await replica.run()
    assert (await granted(replica.kube), slow.under_way, slow.most) == ({}, 1, 1)
    slow.go.set()
    await replica.run()
    assert (phase(replica.kube, "second"), slow.most) == ("Starting", 1)


async def planned(replica: Replica, *actions: Action) -> None:
    """Have the loop carry these actions out, and plan nothing after that."""
    plans = [Plan(actions=actions)]
    replica.operator.loop.schedule = lambda snapshot: plans.pop() if plans else Plan()
    del replica.kube.calls[:]
    await replica.run()


async def test_an_eviction_is_carried_out_only_while_the_job_holds_gpus() -> None:
    replica = Replica()
    submit(replica.kube)
    await replica.run()
    await start_pods(replica.kube)
    evict = Evict(job="red/train", kind=EvictionKind.PREEMPTED, in_favour_of=None, message="for others")
    await planned(replica, evict)
    assert (status(replica.kube)["phase"], sorted(await granted(replica.kube))) == (
        "Evicting",
        ["!train-1-0", "!train-1-1"],
    )
    await end_pods(replica.kube)
    await planned(replica)
    assert phase(replica.kube) == "Pending"
    await planned(replica, evict)
    assert (phase(replica.kube), writes(replica.kube)) == ("Pending", [])


async def test_a_job_that_was_admitted_meanwhile_is_not_admitted_again() -> None:
    replica = Replica()
    submit(replica.kube, workers=1)
    await replica.run()
    placement = replica.operator.cache.jobs["red/train"].placement
    assert placement is not None
    await planned(replica, Admit(job="red/train", placement=placement))
    assert (phase(replica.kube), writes(replica.kube)) == ("Starting", [])


async def test_a_plan_for_a_job_that_is_gone_by_then_is_dropped() -> None:
    replica = Replica()
    submit(replica.kube, workers=1)
    await replica.run()
    placement = replica.operator.cache.jobs["red/train"].placement
    assert placement is not None
    await planned(replica, Admit(job="red/nobody", placement=placement))
    assert writes(replica.kube) == []
