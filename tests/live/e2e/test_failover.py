"""The leading operator is killed under a real kubelet while real jobs run: the other replica leads, the jobs go on."""

from __future__ import annotations

import random
import time
from datetime import datetime
from functools import partial

import pytest

from tests.live.e2e.leadership import another_holder, holder, kill, lease
from tests.live.e2e.tenancy import SYSTEM, Tenancy, training_job
from tests.live.e2e.test_isolation import held_mib

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

JOBS, KILLS, TAKEOVER_S = 12, 2, 10.0


def overcommitted(tenancy: Tenancy) -> list[str]:
    capacity = {gpu["uuid"]: gpu["memoryMiB"] for gpu in tenancy.get("gpunodes")["items"][0]["status"]["gpus"]}
    return [uuid for uuid, mib in held_mib(tenancy.jobs()).items() if mib > capacity[uuid]]


def replicas(tenancy: Tenancy) -> tuple[int, int]:
    """How many are ready, and how often they were restarted, together."""
    pods = tenancy.get("pods", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator")["items"]
    states = [state for pod in pods for state in pod["status"]["containerStatuses"]]
    return sum(state["ready"] for state in states), sum(state["restartCount"] for state in states)


def has_replicas(tenancy: Tenancy, wanted: tuple[int, int]) -> bool:
    return replicas(tenancy) == wanted


def test_jobs_outlive_the_death_of_the_leader(tenancy: Tenancy) -> None:
    chance = random.Random(20260101)
    kept = [f"job-{number:02d}" for number in range(JOBS)]
    tenancy.apply(training_job("long", command=["sleep", "600"]))
    before = tenancy.wait_phase("long", "Running")["status"]
    tenancy.apply(*[training_job(name, command=["sleep", "0.5"]) for name in kept])
    _, restarts = replicas(tenancy)
    took = []
    for killed in range(1, KILLS + 1):
        time.sleep(chance.uniform(1, 5))
        leader = tenancy.wait(lambda: holder(tenancy), what="a replica leads")
        kill(tenancy, leader.rpartition("_")[0])
        died = time.time()
        tenancy.wait(partial(another_holder, tenancy, leader), what="the other replica leads")
        taken = lease(tenancy)
        assert taken["holderIdentity"].rpartition("_")[0] != leader.rpartition("_")[0], "the pod of the dead came back"
        took.append(datetime.fromisoformat(taken["acquireTime"]).timestamp() - died)
        assert overcommitted(tenancy) == []
        tenancy.wait(partial(has_replicas, tenancy, (2, restarts + killed)), what="the pod of the dead is back")
    print(f"takeovers: {', '.join(f'{seconds:.1f} s' for seconds in took)}")
    assert max(took) <= TAKEOVER_S
    for name in kept:
        tenancy.wait_phase(name, "Succeeded", seconds=300)
    assert overcommitted(tenancy) == []
    pods = tenancy.get("pods", "-n", "team-a", "-l", "cotenant.dev/job")["items"]
    assert sorted(pod["metadata"]["labels"]["cotenant.dev/job"] for pod in pods) == sorted([*kept, "long"])
    after = tenancy.job("long")["status"]
    assert (after["phase"], after["attempts"], after["placement"]) == ("Running", 1, before["placement"])
