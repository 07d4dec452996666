"""A GPU on which ranks are far slower than their peers: from pods of two tenants through the operator to its agent."""

import pytest

from tests.live.e2e.tenancy import Tenancy, training_job

pytestmark = pytest.mark.cluster

REPORTS = """
import os, time
from cotenant_worker.hook.cotenant_shim.launcher_client import launcher
own_ms = 500.0 if os.environ["CUDA_VISIBLE_DEVICES"] == SLOW else 5.0
times = {"all_reduce_ms": 1.0, "all_reduce_bytes": 4, "own_ms": own_ms}
launcher.send({"op": "preflight", "device": "cpu", **times})
time.sleep(600)
"""
"""Program that reports what the check before step 0 reports where one GPU is slow."""


def health(tenancy: Tenancy) -> dict[str, tuple[bool, str]]:
    gpus = tenancy.get("gpunodes")["items"][0]["status"]["gpus"]
    return {gpu["uuid"]: (gpu["healthy"], gpu["health"]) for gpu in gpus}


def annotations(tenancy: Tenancy) -> dict[str, str]:
    found: dict[str, str] = tenancy.get("gpunodes")["items"][0]["metadata"].get("annotations", {})
    return found


def test_a_gpu_that_two_tenants_found_slow_is_shown_as_such_until_the_administrator_says_otherwise(
    tenancy: Tenancy,
) -> None:
    fast, slow = sorted(health(tenancy))

    def found_slow_by(team: str) -> None:
        program = f"SLOW = {slow!r}\n{REPORTS}"
        tenancy.apply(training_job("uneven", team, workers=2, command=["python", "-c", program]))
        tenancy.wait_phase("uneven", "Running", namespace=team)
        tenancy.wait(
            lambda: f"{team}/{team}=" in annotations(tenancy).get(f"slow-reports.cotenant.dev/{slow}", ""),
            what="it is noted for the administrator",
        )

    def warnings() -> list[str]:
        found: list[str] = tenancy.job("uneven")["status"]["progress"]["warnings"]
        return found

    found_slow_by("team-a")
    tenancy.wait(lambda: any("suspect" in one and slow in one for one in warnings()), what="the job is told")
    assert f"suspect.cotenant.dev/{slow}" not in annotations(tenancy)
    assert health(tenancy) == {fast: (True, ""), slow: (True, "")}  # one tenant's word is nobody else's

    tenancy.cluster.kubectl("delete", "trainingjob", "uneven", "-n", "team-a")
    found_slow_by("team-b")
    said = "Slow: jobs of 2 queues found it far slower than their other GPUs, last "
    tenancy.wait(lambda: health(tenancy)[slow][1].startswith(said), what="the agent shows it")
    assert health(tenancy)[fast] == (True, "")
    (node,) = tenancy.get("gpunodes")["items"]
    tenancy.cluster.kubectl("annotate", "gpunode", node["metadata"]["name"], f"cotenant.dev/uncordon={slow}")
    tenancy.wait(lambda: health(tenancy) == {fast: (True, ""), slow: (True, "")}, what="the agent forgets it")
    tenancy.wait(lambda: not annotations(tenancy), what="the notes are gone")
