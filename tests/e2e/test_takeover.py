"""The leader is killed at random moments while jobs come and go: nothing is lost, doubled or overcommitted."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from datetime import datetime
from pathlib import Path

import pytest
from tests.e2e.tenancy import SYSTEM, Document, Tenancy, training_job
from tests.e2e.test_isolation import held_mib

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

JOBS, KILLS, TAKEOVER_S = 30, 3, 10.0


def leader(tenancy: Tenancy) -> str:
    """Pod name of the replica that holds the Lease."""
    (lease,) = [
        one for one in tenancy.get("leases", "-n", SYSTEM)["items"] if one["metadata"]["name"].startswith("cotenant")
    ]
    return str(lease["spec"].get("holderIdentity") or "").split("_")[0]


def kill_operator(pod: str) -> None:
    """SIGKILL from the host to every process whose host name is the pod's: what a crash looks like, no farewell."""
    victims = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes()
            if f"HOSTNAME={pod}".encode() in environment and b"operator" in command:
                victims.append(int(folder.name))
    assert victims, f"no process of {pod} was found"
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def overcommitted(tenancy: Tenancy) -> list[str]:
    capacity = {gpu["uuid"]: gpu["memoryMiB"] for gpu in tenancy.get("gpunodes")["items"][0]["status"]["gpus"]}
    return [uuid for uuid, mib in held_mib(tenancy.jobs()).items() if mib > capacity[uuid]]


def seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def test_jobs_survive_the_death_of_the_leader(tenancy: Tenancy) -> None:
    chance = random.Random(20260101)
    tenancy.apply(*[training_job(f"job-{number:02d}", command=["sleep", "0.5"]) for number in range(JOBS)])
    takeovers = []
    for _ in range(KILLS):
        time.sleep(chance.uniform(1, 6))
        before = leader(tenancy)
        kill_operator(before)
        died = time.monotonic()
        tenancy.wait(
            lambda before=before: leader(tenancy) not in {"", before}, seconds=30, what="the other replica leads"
        )
        takeovers.append(time.monotonic() - died)
        assert not overcommitted(tenancy)
        tenancy.wait(lambda: ready(tenancy) == 2, seconds=90, what="both replicas are back")

    def ended() -> bool:
        assert not overcommitted(tenancy)
        return all(job.get("status", {}).get("phase") in {"Succeeded", "Failed"} for job in tenancy.jobs())

    tenancy.wait(ended, seconds=300, what="all jobs have ended")
    jobs = tenancy.jobs()
    assert len(jobs) == JOBS
    assert {job["metadata"]["name"]: job["status"]["phase"] for job in jobs} == {
        f"job-{number:02d}": "Succeeded" for number in range(JOBS)
    }
    assert max(takeovers) <= TAKEOVER_S, takeovers
    assert all(pods_of(tenancy, job) <= job["status"]["attempts"] for job in jobs)


def ready(tenancy: Tenancy) -> int:
    deployment = tenancy.get("deployment", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator")["items"][0]
    return int(deployment["status"].get("readyReplicas") or 0)


def pods_of(tenancy: Tenancy, job: Document) -> int:
    found = tenancy.get("pods", "-n", "team-a", "-l", f"cotenant.dev/job={job['metadata']['name']}")
    return len(found["items"])
