"""`cotenant gpus reset` on a whole cluster: refused while a job holds the GPU, done once it has stayed free."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.live.e2e.tenancy import Document, Tenancy, product, training_job

pytestmark = pytest.mark.cluster
NODE = "node-1"
HOLD = ["python", "-c", "import time; time.sleep(3600)"]


@pytest.fixture(scope="module")
def node() -> Iterator[Tenancy]:
    """One node of two simulated GPUs."""
    from cotenant_local.cluster import spec

    with product("resets", spec.uniform(1, gpus=2, gpu_class="H100", gpu_memory="80Gi")) as tenancy:
        yield tenancy


def reset(tenancy: Tenancy, gpu: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "cotenant", "gpus", "reset", NODE, gpu, "--timeout", "120"],
        env=os.environ | {"KUBECONFIG": str(tenancy.cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    return done.returncode, done.stdout + done.stderr


def gpus(tenancy: Tenancy) -> list[Document]:
    found: list[Document] = tenancy.get("gpunode", NODE)["status"]["gpus"]
    return found


def test_a_gpu_is_reset_by_hand_only_while_nobody_holds_it(node: Tenancy) -> None:
    node.apply(training_job("holds", gpu={"count": 1}, command=HOLD))
    job = node.wait_phase("holds", "Running")
    held = job["status"]["placement"]["nodes"][0]["ranks"][0]["gpus"][0]["uuid"]
    (free,) = [gpu["uuid"] for gpu in gpus(node) if gpu["uuid"] != held]

    code, said = reset(node, held)
    assert code == 1, said
    assert "Refused: " in said
    assert "holds-1-0" in said, "who holds it"
    assert node.job("holds")["status"]["phase"] == "Running"

    code, said = reset(node, free)
    assert code == 0, said
    assert "Done: " in said
    states = {gpu["uuid"]: (gpu["reset"]["state"], gpu["healthy"]) for gpu in gpus(node)}
    assert states == {held: ("Refused", True), free: ("Done", True)}
    assert not node.get("gpunode", NODE)["metadata"].get("annotations", {}).get("cotenant.dev/reset")
    node.delete_all()
