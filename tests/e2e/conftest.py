"""A cluster of its own with the chart on it: operator and agent are pods under real kubelets, as the chart makes them.

Inputs: manifests, as a tenant writes them. Outputs: what the API server holds and what processes in the pods see.
Nothing is mocked; GPUs are simulated.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.tenancy import SYSTEM, Tenancy

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def installed() -> Iterator[Tenancy]:
    """One node of two simulated 80 GiB GPUs, the chart with two operators, tenants team-a and team-b."""
    from cotenant_local import lifecycle, spec

    name = f"e2e-{os.getpid()}"
    cluster = lifecycle.up(name, spec.uniform(1, gpus=2, gpu_class="H100", gpu_memory="80Gi"), attached=True)
    try:
        tenancy = Tenancy(cluster)
        arguments = ["upgrade", "--install", "cotenant", str(CHECKOUT / "charts" / "cotenant"), "-n", SYSTEM]
        options = ["--create-namespace", "--set", "agent.simulate=true", "--wait", "--timeout", "180s"]
        subprocess.run(cluster.command("helm", *arguments, *options), check=True, capture_output=True, text=True)
        cluster.kubectl("annotate", "nodes", "--all", "--overwrite", "cotenant.dev/shared-by-queues=true")
        cluster.kubectl("apply", "-f", str(CHECKOUT / "examples" / "00-tenants.yaml"))
        tenancy.wait(lambda: tenancy.get("gpunodes")["items"], what="the agent publishes its node")
        yield tenancy
    finally:
        lifecycle.down(name)


@pytest.fixture
def tenancy(installed: Tenancy) -> Iterator[Tenancy]:
    """The same, with no job left over from the test before."""
    installed.delete_all()
    yield installed
    installed.delete_all()
