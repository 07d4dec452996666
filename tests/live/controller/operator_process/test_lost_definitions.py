"""An administrator deletes the CustomResourceDefinitions and makes them again, or forgets to bring them up to date."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from cotenant.controller.client.kube import QUEUES, TRAINING_JOBS
from tests.live.controller.operator_process.replicas import CRDS, Tenant, prepare, simulated_tenant

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

NAMESPACE, GPUS = "undefined", 4
LOST = (TRAINING_JOBS, QUEUES)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    logs = tmp_path_factory.mktemp("undefined")
    async with simulated_tenant(api_server, NAMESPACE, logs, nodes=1, gpus=GPUS, run_s=lambda _: 10_000.0) as tenant:
        await tenant.start_ready()
        yield tenant


async def test_the_same_operator_goes_on_when_the_definitions_are_back(tenant: Tenant) -> None:
    await tenant.submit("before", workers=GPUS)
    await tenant.wait_phase("before", "Running")
    leader = await tenant.leader()
    lost = [f"{resource.plural}.cotenant.dev" for resource in LOST]
    for name in lost:
        await tenant.kube.delete(CRDS, name)

    async def gone() -> bool:
        left = [(await tenant.kube.get(CRDS, name)).done for name in lost]
        return not any(left) and not await tenant.pods()

    async def noticed() -> bool:
        """True once the operator has noticed: kopf stops at the first watch that is not served any more."""
        log = (tenant.logs / f"{leader}.log").read_text()
        return any(f"Watcher for {one.plural}.v1beta1.cotenant.dev@none has failed" in log for one in LOST)

    await tenant.wait(gone, what="the definitions are gone, and with the jobs their pods")
    await tenant.wait(noticed, what="the operator has lost a watch")
    await prepare(tenant.kube, NAMESPACE, GPUS)
    await tenant.submit("after", workers=GPUS)
    await tenant.wait_phase("after", "Running")
    assert (tenant.replicas[leader].returncode, await tenant.leader()) == (None, leader)


async def test_a_replica_waits_for_definitions_of_its_own_release_and_the_one_before_goes_on(tenant: Tenant) -> None:
    name = f"{QUEUES.plural}.cotenant.dev"
    kept = (await tenant.kube.get(CRDS, name)).document["spec"]["versions"]
    older = deepcopy(kept)
    for version in older:
        del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"]
    await tenant.kube.patch(CRDS, name, {"spec": {"versions": older}})
    leader = await tenant.leader()
    upgraded = await tenant.start()

    async def waits() -> bool:
        return (
            f"{name} is of an older release: it lacks status.conditions; this replica waits"
            in (tenant.logs / f"{upgraded}.log").read_text()
        )

    await tenant.wait(waits, what="the replica says which definition is older")
    assert (await tenant.is_ready(upgraded), await tenant.leader()) == (False, leader)
    await tenant.kube.patch(CRDS, name, {"spec": {"versions": kept}})
    await tenant.wait(lambda: tenant.is_ready(upgraded), what="the replica is ready")
