"""A cluster of its own with the chart on it: operator and agent are pods under real kubelets, as the chart makes them.

Inputs: manifests, as a tenant writes them. Outputs: what the API server holds and what processes in the pods see.
Nothing is mocked; GPUs are simulated.
"""

from collections.abc import Iterator

import pytest

from tests.live.e2e.tenancy import Tenancy, product


@pytest.fixture(scope="session")
def installed() -> Iterator[Tenancy]:
    """One node of two simulated 80 GiB GPUs, the chart with two operators, tenants team-a and team-b."""
    from cotenant_local.cluster import spec

    with product("e2e", spec.uniform(1, gpus=2, gpu_class="H100", gpu_memory="80Gi")) as tenancy:
        yield tenancy


@pytest.fixture
def tenancy(installed: Tenancy) -> Iterator[Tenancy]:
    """The same, with no job left over from the test before."""
    installed.delete_all()
    yield installed
    installed.delete_all()
