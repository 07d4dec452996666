"""Operators as processes, on a real API server whose nodes and pods are played: for tests of whole lives and faults.

Inputs: documents, as a tenant writes them, and signals. Outputs: what the API server holds. The scheduler, the
controllers and the operators are real; only what a kubelet would say of its pods comes from `tests.support.pod_writer`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml

from cotenant import names
from cotenant.controller.client.credentials import load_configuration
from cotenant.controller.client.kube import (
    GPU_NODES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    QUEUES,
    TRAINING_JOBS,
    Document,
    Outcome,
    Resource,
    UnreachableError,
)
from cotenant.controller.client.rest import RestKube
from cotenant_local.host.patience import Patience
from tests.support.pod_writer import Hardware, PodWriter

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

CHECKOUT = Path(__file__).resolve().parents[4]
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
OURS = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"


@dataclass
class Tenant:
    """A tenant `namespace` with a queue of the same name, on played nodes."""

    kube: RestKube
    kubeconfig: str
    namespace: str
    logs: Path
    replicas: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    async def start(self) -> str:
        """One more replica; its identity."""
        identity = f"replica-{len(self.replicas)}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = self.ports[identity] = probe.getsockname()[1]
        flags = ["--identity", identity, "--namespace", self.namespace, "--port", str(port), "--host", "127.0.0.1"]
        flags += ["--metrics-port", "0"]
        quick = ["--start-timeout-s", "60", "--tick-s", "1", "--queue-s", "1", "--protected-runtime-s", "0"]
        with (self.logs / f"{identity}.log").open("wb") as log:
            self.replicas[identity] = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "cotenant", "operator", *flags, *quick),
                env=os.environ | {"KUBECONFIG": self.kubeconfig},
                stdout=log,
                stderr=log,
            )
        return identity

    async def start_ready(self) -> str:
        """One more replica, that has listed the cluster and waits for its turn or leads."""
        identity = await self.start()

        await self.wait(lambda: self.is_ready(identity), what=f"{identity} is ready")
        return identity

    async def is_ready(self, identity: str) -> bool:
        with contextlib.suppress(aiohttp.ClientError, OSError):
            address = f"http://127.0.0.1:{self.ports[identity]}/readyz"
            async with aiohttp.ClientSession() as session, session.get(address) as answer:
                return answer.status == 200
        return False

    async def stop_all(self) -> None:
        for process in self.replicas.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def holder(self) -> str:
        """The holder that the Lease names, dead or alive; empty if the Lease is free."""
        found = await self.kube.get(LEASES, "cotenant-operator", self.namespace)
        return str(found.document["spec"].get("holderIdentity") or "") if found.done else ""

    async def leader(self) -> str:
        """Identity of the replica that holds the Lease, if it is one that lives."""
        holder = await self.holder()
        process = self.replicas.get(holder)
        return holder if process is not None and process.returncode is None else ""

    async def submit(self, name: str, **spec: Any) -> Document:
        made = await self.kube.create(TRAINING_JOBS, training_job(name, self.namespace, **spec), self.namespace)
        if made.outcome is Outcome.EXISTS:  # the answer to the first try was lost
            made = await self.kube.get(TRAINING_JOBS, name, self.namespace)
        assert made.done, made.message
        return made.document

    async def job(self, name: str) -> Document | None:
        found = await self.kube.get(TRAINING_JOBS, name, self.namespace)
        return found.document if found.done else None

    async def status(self, name: str) -> dict[str, Any]:
        found = await self.job(name)
        return dict(found.get("status") or {}) if found else {}

    async def jobs(self) -> list[Document]:
        return list((await self.kube.list(TRAINING_JOBS, self.namespace)).items)

    async def pods(self) -> list[Document]:
        return list((await self.kube.list(PODS, self.namespace, labels=OURS)).items)

    async def empty(self) -> bool:
        return not await self.jobs() and not await self.pods()

    async def clear(self) -> None:
        """Delete all jobs, and wait until they and their pods are gone."""
        for job in await self.jobs():
            await self.kube.delete(TRAINING_JOBS, job["metadata"]["name"], self.namespace)
        await self.wait(self.empty, what="the jobs of this test and their pods are gone")

    async def wait(self, until: Callable[[], Any], *, seconds: float = 90.0, what: str) -> Any:
        """The first true answer of the coroutine function `until`."""
        patience = Patience(seconds)
        while not (answer := await until()):
            if patience.exhausted():
                pytest.fail(f"not within {patience}: {what}\n{await self.describe()}")
            await asyncio.sleep(0.1)
        return answer

    async def wait_phase(self, name: str, *phases: str, seconds: float = 90.0) -> dict[str, Any]:
        async def there() -> dict[str, Any]:
            status = await self.status(name)
            return status if status.get("phase") in phases else {}

        found: dict[str, Any] = await self.wait(there, seconds=seconds, what=f"{name} is {' or '.join(phases)}")
        return found

    async def describe(self) -> str:
        lines = [
            f"{job['metadata']['name']}: {job.get('status', {}).get('phase')} {job.get('status', {}).get('message')}"
            for job in await self.jobs()
        ]
        tails = [path.read_text()[-1500:] for path in sorted(self.logs.glob("*.log"))]
        return "\n".join([*lines, *tails])


def training_job(name: str, namespace: str, **spec: Any) -> Document:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "queue": namespace,
            "workers": 1,
            "gpu": {"count": 1},
            "resources": {"cpu": "100m", "memory": "64Mi"},
            "runtime": {"entrypoint": "train:main"},
            **spec,
        },
    }


@asynccontextmanager
async def simulated_tenant(
    cluster: Cluster,
    namespace: str,
    logs: Path,
    *,
    nodes: int,
    gpus: int,
    run_s: Callable[[Document], float],
    **writer: Any,
) -> AsyncIterator[Tenant]:
    """CRDs, one tenant, played nodes and no others; whatever happens, all that was made and started is ended."""
    hardware = Hardware(nodes=nodes, gpus=gpus, prefix=namespace)
    async with (
        RestKube(lambda: load_configuration(str(cluster.kubeconfig))) as kube,
        contextlib.AsyncExitStack() as afterwards,  # each of these is done, whatever became of those before
    ):
        tenant = Tenant(kube, str(cluster.kubeconfig), namespace, logs)
        afterwards.push_async_callback(kube.delete, QUEUES, namespace)
        for name in hardware.names():
            afterwards.push_async_callback(kube.delete, NODES, name)
            afterwards.push_async_callback(kube.delete, GPU_NODES, name)
        afterwards.push_async_callback(_end_pods, tenant)
        await prepare(kube, namespace, nodes * gpus)
        await forget_gpu_nodes(kube)
        await afterwards.enter_async_context(PodWriter(kube=kube, hardware=hardware, run_s=run_s, **writer))
        afterwards.push_async_callback(_delete_jobs, tenant)
        afterwards.push_async_callback(tenant.stop_all)
        yield tenant


async def _delete_jobs(tenant: Tenant) -> None:
    for job in await tenant.jobs():
        await tenant.kube.delete(TRAINING_JOBS, job["metadata"]["name"], tenant.namespace)


async def _end_pods(tenant: Tenant) -> None:
    for pod in await tenant.pods():
        await tenant.kube.delete(PODS, pod["metadata"]["name"], tenant.namespace, grace_s=0)


async def forget_gpu_nodes(kube: RestKube) -> None:
    """An agent that was here before leaves its GPUNode: GPUs on a real node, whose kubelet would run what is played."""
    patience = Patience(30.0)
    while True:
        try:
            left = await kube.list(GPU_NODES)
            break
        except UnreachableError:  # a CRD is served a moment after it was made
            assert not patience.exhausted(), "GPUNodes are not served"
            await asyncio.sleep(0.1)
    for node in left.items:
        await kube.delete(GPU_NODES, node["metadata"]["name"])


async def prepare(kube: RestKube, namespace: str, gpus: int) -> None:
    for path in sorted((CHECKOUT / "crds").glob("*.yaml")):
        made = await kube.create(CRDS, yaml.safe_load(path.read_text()))
        assert made.outcome in {Outcome.DONE, Outcome.EXISTS}, made.message
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    await kube.create(NAMESPACES, body)
    spec = {"namespaces": [namespace], "quotas": [{"guaranteed": gpus}]}
    queue = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": namespace}, "spec": spec}
    patience = Patience(30.0)
    while (made := await kube.create(QUEUES, queue)).code == 404:  # a CRD is served a moment after it was made
        assert not patience.exhausted(), made.message
        await asyncio.sleep(0.1)
