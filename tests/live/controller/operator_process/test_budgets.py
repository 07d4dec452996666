"""A budget on a real API server: counted exactly over a SIGKILL of the leader, and nothing starts beyond it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cotenant.controller.client.kube import QUEUES, TRAINING_JOBS
from tests.live.controller.operator_process.replicas import Tenant, simulated_tenant

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

NAME = "budgets"
PRICES = {"currency": "EUR", "classes": [{"gpuClass": "*", "perGPUHour": "3.60"}]}
"""A micro-unit for a milli-GPU-second."""
GRANTED = 36_000
"""Milli-GPU-seconds: a hundredth of a GPU-hour, nine seconds of four GPUs."""


async def spent(tenant: Tenant) -> int:
    return int((await budget(tenant)).get("spentMilliGPUSeconds", 0))


async def budget(tenant: Tenant) -> dict[str, Any]:
    found = await tenant.kube.get(QUEUES, NAME)
    return dict((found.document.get("status") or {}).get("budget") or {})


async def test_a_budget_is_counted_over_a_killed_leader_and_nothing_starts_when_it_is_spent(
    api_server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTENANT_PRICES", json.dumps(PRICES))
    async with simulated_tenant(api_server, NAME, tmp_path, nodes=1, gpus=8, run_s=lambda _: 10_000.0) as tenant:
        spec = {"spec": {"budget": {"gpuHours": "0.01", "money": 1000, "period": "Month"}}}
        assert (await tenant.kube.patch(QUEUES, NAME, spec)).done
        await tenant.start_ready()
        await tenant.wait(lambda: budget(tenant), what="the budget has an account")
        await tenant.submit("holds", workers=4)
        await tenant.wait_phase("holds", "Running")

        async def some_is_spent() -> bool:
            return await spent(tenant) > 0

        await tenant.wait(some_is_spent, what="some of it is spent")
        leader = await tenant.leader()
        tenant.replicas[leader].kill()
        await tenant.replicas[leader].wait()
        await tenant.start_ready()

        async def all_is_spent() -> bool:
            return await spent(tenant) >= GRANTED

        await tenant.wait(all_is_spent, what="the budget is spent")
        await tenant.submit("late", workers=1)

        async def refused() -> dict[str, Any]:
            pending = (await tenant.status("late")).get("pending") or {}
            return pending if pending.get("reason") == "BudgetSpent" else {}

        pending = await tenant.wait(refused, what="nothing starts beyond it")
        end = (await budget(tenant))["periodEnd"]
        assert pending["message"].startswith(
            f"The budget of 0.01 GPU-hours of queue {NAME} is spent until {end[:16]}Z;"
        )
        suspended = {"spec": {"suspend": True}}
        assert (await tenant.kube.patch(TRAINING_JOBS, "holds", suspended, namespace=NAME)).done
        held = (await tenant.wait_phase("holds", "Suspended", seconds=60))["usage"]["gpuMilliseconds"]

        async def reconciled() -> bool:
            return await spent(tenant) == int(held)

        await tenant.wait(reconciled, what=f"the account has the {held} milli-GPU-seconds of the job")
        account = await budget(tenant)
        assert (account["money"]["spentMicros"], account["money"]["currency"], account["left"]) == (held, "EUR", "0")
        assert (await tenant.status("late"))["phase"] == "Pending"
