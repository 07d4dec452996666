"""One story of the whole product on a real Kubernetes: installed, used by two tenants, hurt, uninstalled.

Two queues on one node of four simulated GPUs. What each promise means in detail is tested in `tests/live`; this says
that the parts still fit together.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial

import pytest
import yaml

from tests.live.e2e.leadership import another_holder, holder, kill
from tests.live.e2e.tenancy import CHECKOUT, SYSTEM, Tenancy, product, training_job
from tests.live.waiting import timeout

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]  # the programs are built first, where that was not done

TRAINING = CHECKOUT / "examples" / "20-digits-b.yaml"


@pytest.fixture(scope="module")
def tenancy() -> Iterator[Tenancy]:
    from cotenant_local.cluster import spec

    wanted = spec.uniform(1, gpus=4, gpu_class="H100", gpu_memory="80Gi")
    with product("smoke", wanted, "operator.settings.protected_runtime_s=0") as tenancy:
        yield tenancy


def test_two_tenants_train_one_is_evicted_the_leader_is_killed_and_nothing_stays(tenancy: Tenancy) -> None:
    said = tenancy.refused(training_job("nonsense", gpu={"memoryFraction": "1.5"}))
    assert "spec.gpu.memoryFraction" in said

    tenancy.apply(training_job("long", command=["sleep", "600"], gpu={"count": 2}))
    tenancy.wait_phase("long", "Running")
    tenancy.apply(*yaml.safe_load_all(TRAINING.read_text()))
    tenancy.wait_phase("digits-b", "Running", namespace="team-b")
    former = holder(tenancy)
    kill(tenancy, former.rpartition("_")[0])
    tenancy.wait(partial(another_holder, tenancy, former), what="the other replica leads")
    trained = tenancy.wait_phase("digits-b", "Succeeded", "Failed", namespace="team-b", seconds=200)["status"]
    assert trained["phase"] == "Succeeded", trained
    assert (trained["results"]["ranks"], float(trained["results"]["test_accuracy"]) > 0.8) == (2, True)

    tenancy.apply(training_job("urgent", gpu={"count": 3}, priority=100))
    evicted = tenancy.wait(lambda: tenancy.job("long")["status"].get("eviction"), what="the other job is evicted")
    assert (evicted["kind"], "urgent" in evicted["message"]) == ("Preempted", True)
    tenancy.wait_phase("urgent", "Succeeded")
    again = tenancy.wait_phase("long", "Running")["status"]
    assert again["attempts"] == 2

    tenancy.delete_all()
    uninstall = tenancy.cluster.command("helm", "uninstall", "cotenant", "-n", SYSTEM, "--wait", timeout(120))
    subprocess.run(uninstall, check=True, capture_output=True, text=True)
    tenancy.wait(
        lambda: not tenancy.get("pods", "-A", "-l", "app.kubernetes.io/name=cotenant")["items"], what="pods end"
    )
    left = tenancy.cluster.kubectl("get", "clusterroles,validatingadmissionpolicies", "-o", "name").split()
    assert [name for name in left if "cotenant" in name] == []
