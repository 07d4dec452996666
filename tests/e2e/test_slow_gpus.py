"""A rank that is far slower than its peers: from the pod through the operator to the agent of the node it is on."""

import pytest

from tests.e2e.tenancy import Tenancy, training_job

pytestmark = pytest.mark.cluster

REPORTS = """
import os, time
from cotenant_worker.hook.cotenant_shim.launcher_client import launcher
own_ms = 500.0 if os.environ["RANK"] == "1" else 5.0
times = {"all_reduce_ms": 1.0, "all_reduce_bytes": 4, "own_ms": own_ms}
launcher.send({"op": "preflight", "device": "cpu", **times})
time.sleep(600)
"""
"""Program that reports what the check before step 0 reports where one GPU is slow."""


def health(tenancy: Tenancy) -> dict[str, tuple[bool, str]]:
    gpus = tenancy.get("gpunodes")["items"][0]["status"]["gpus"]
    return {gpu["uuid"]: (gpu["healthy"], gpu["health"]) for gpu in gpus}


def test_a_gpu_that_a_job_found_slow_is_shown_as_such_until_the_administrator_says_otherwise(tenancy: Tenancy) -> None:
    tenancy.apply(training_job("uneven", workers=2, command=["python", "-c", REPORTS]))
    (node,) = tenancy.wait_phase("uneven", "Running")["status"]["placement"]["nodes"]
    fast, slow = (rank["gpus"][0]["uuid"] for rank in node["ranks"])
    said = "Slow: team-a/uneven: rank 1 needed 500.0 ms for what its other ranks did in 5.0 ms"
    tenancy.wait(lambda: health(tenancy) == {fast: (True, ""), slow: (True, said)}, what="the agent shows it")
    warnings = tenancy.job("uneven")["status"]["progress"]["warnings"]
    assert any("rank 1" in warning and slow in warning for warning in warnings), warnings
    tenancy.cluster.kubectl("annotate", "gpunode", node["node"], f"cotenant.dev/uncordon={slow}")
    tenancy.wait(lambda: health(tenancy) == {fast: (True, ""), slow: (True, "")}, what="the agent forgets it")
    assert not tenancy.get("gpunodes")["items"][0]["metadata"].get("annotations")
