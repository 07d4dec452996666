"""What must hold after every change: the operator lives and decides, and no GPU is overcommitted."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.live.e2e.tenancy import SYSTEM, Tenancy, training_job

DECIDE_S = 20.0
"""Time in which a new job gets its verdict."""


def restarts(tenancy: Tenancy) -> dict[str, int]:
    """Restarts of each pod of operator and agent; a replaced pod has another name."""
    return {
        pod["metadata"]["name"]: sum(one["restartCount"] for one in pod["status"].get("containerStatuses", []))
        for pod in tenancy.get("pods", "-n", SYSTEM)["items"]
    }


def decides(tenancy: Tenancy, number: int) -> None:
    """True if a job that can never run is told so: then the way from the API server through a cycle and back works."""
    name = f"canary-{number}"
    tenancy.apply(training_job(name, "team-b", gpu={"count": 64}))
    wait_for = lambda: (tenancy.job(name, "team-b").get("status") or {}).get("pending")  # noqa: E731 - one use
    tenancy.wait(wait_for, seconds=DECIDE_S, what="a new job gets a verdict")
    tenancy.cluster.kubectl("delete", "trainingjob", name, "-n", "team-b", "--wait=false")


def overbooked(tenancy: Tenancy) -> dict[str, int]:
    """GPU UUID → milli-GPU that placements have handed out beyond 1,000."""
    taken: dict[str, int] = defaultdict(int)
    for job in tenancy.jobs():
        placement = (job.get("status") or {}).get("placement") or {}
        for rank in (rank for node in placement.get("nodes", ()) for rank in node["ranks"]):
            for gpu in rank["gpus"]:
                taken[gpu["uuid"]] += gpu["computeMilli"]
    return {uuid: milli - 1000 for uuid, milli in taken.items() if milli > 1000}


def quarantined(tenancy: Tenancy) -> dict[str, str]:
    """Job → why. The operator has to cope with every change that the API server accepts."""
    found: dict[str, str] = {}
    for job in tenancy.jobs():
        conditions: list[dict[str, Any]] = (job.get("status") or {}).get("conditions") or []
        for one in conditions:
            if one["type"] == "Quarantined" and one["status"] == "True":
                found[job["metadata"]["name"]] = one["message"]
    return found
