"""Two whole operators, each on its own double of the API server: `here` hands jobs to `there`."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import yaml
from kubernetes.client import Configuration

from cotenant import names
from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import (
    GPU_NODES,
    NAMESPACES,
    PODS,
    QUEUES,
    REMOTE_CLUSTERS,
    SECRETS,
    TRAINING_JOBS,
    Document,
    Resource,
    UnreachableError,
)
from cotenant.controller.composites.remote_clusters.keeper import RemoteKeeper
from tests.controller.execution.replica import NODE_NAMES, Replica, end_pods, new_kube, simulated_now, start_pods
from tests.support.fake_kube import FakeKube

SYSTEM = "cotenant-system"
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "there",
    "contexts": [{"name": "there", "context": {"cluster": "there", "user": "spill"}}],
    "clusters": [{"name": "there", "cluster": {"server": "https://there.example"}}],
    "users": [{"name": "spill", "user": {"token": "sesame"}}],
}


def secret(kubeconfig: Any = KUBECONFIG) -> Document:
    text = kubeconfig if isinstance(kubeconfig, str) else yaml.safe_dump(kubeconfig)
    data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
    return {"metadata": {"name": "there", "namespace": SYSTEM}, "data": data}


def remote_cluster(**spec: Any) -> Document:
    wanted = {"kubeconfigSecret": "there", **spec}
    return {"apiVersion": names.API_VERSION, "kind": "RemoteCluster", "metadata": {"name": "there"}, "spec": wanted}


class FarKube:
    """The API server there, as the operator here reaches it. It fails while the line is cut, and for a replica that no
    longer leads.
    """

    def __init__(self, kube: FakeKube, is_reachable: Callable[[], bool], fence: Fence) -> None:
        self._kube, self._is_reachable, self._fence = kube, is_reachable, fence

    def __getattr__(self, verb: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if not self._is_reachable():
                raise UnreachableError(f"{verb} failed 3 times; last: no route to host")
            if verb not in {"get", "list"}:
                self._fence.check(verb)
            return await getattr(self._kube, verb)(*args, **kwargs)

        return call


class TwoClusters:
    def __init__(self, *, after: str = "0s", remote: dict[str, Any] | None = None, **spillover: Any) -> None:
        here, there = new_kube(), new_kube()
        here.put(NAMESPACES, {"metadata": {"name": "kube-system", "uid": "cluster-here"}})
        here.put(SECRETS, secret())
        here.put(REMOTE_CLUSTERS, remote_cluster(**(remote or {})))
        queue = here.stored(QUEUES, "red")
        assert queue is not None
        wanted = queue["spec"] | {"spillover": {"cluster": "there", "after": after, **spillover}}
        here.put(QUEUES, queue | {"spec": wanted})
        self.reachable = True
        self.there = Replica(there)
        self.here = Replica(here)
        self.keeper = self._keeper()

    def crash(self) -> None:
        """The operator here dies. Another one starts from what the API server has."""
        self.here.leads = False
        self.here = Replica(self.here.kube)
        self.keeper = self._keeper()

    def _keeper(self) -> RemoteKeeper:
        replica = self.here
        self.fence = Fence(lambda: replica.leads)
        fence = self.fence

        @asynccontextmanager
        async def connect(_: Configuration) -> AsyncIterator[Any]:
            yield FarKube(self.there.kube, lambda: self.reachable, fence)

        registry = replica.operator.remote_clusters
        registry.connect = connect
        return registry.keeper("there")

    async def both(self, seconds: float = 1.5) -> None:
        """Let both operators work, and let both clusters' kubelets start and end their pods."""
        for side in (self.here, self.there):
            self.beat(side.kube)
            await side.run(seconds)
            await end_pods(side.kube)
            await start_pods(side.kube)
            await side.run(0.5)

    async def look(self) -> None:
        """One look of the operator here at the cluster there, with what the watch has brought until then."""
        self.here.kube.deliver(self.here.operator.feed.on_event)
        await self.keeper.look()
        self.here.kube.deliver(self.here.operator.feed.on_event)

    async def settle(self, rounds: int = 4) -> None:
        for _ in range(rounds):
            await self.both()
            await self.look()

    @staticmethod
    def beat(kube: FakeKube) -> None:
        """Have the agents send heartbeats."""
        now = datetime.fromtimestamp(simulated_now(), UTC).isoformat()
        for name in NODE_NAMES:
            found = kube.stored(GPU_NODES, name)
            assert found is not None
            kube.put(GPU_NODES, found | {"status": found["status"] | {"heartbeat": now}})

    def mirrors(self) -> list[Document]:
        return [one for (kind, _), one in self.there.kube._objects.items() if kind == TRAINING_JOBS]

    def mirror(self) -> Document:
        (found,) = self.mirrors()
        return found

    def job(self, name: str = "train") -> Document:
        found = self.here.kube.stored(TRAINING_JOBS, name, "red")
        assert found is not None
        return found

    def status(self, name: str = "train") -> dict[str, Any]:
        found: dict[str, Any] = self.job(name).get("status", {})
        return found

    def condition(self, kind: str, name: str = "train") -> dict[str, Any]:
        return next((one for one in self.status(name).get("conditions", []) if one["type"] == kind), {})

    def remote(self) -> dict[str, Any]:
        stored = self.here.kube.stored(REMOTE_CLUSTERS, "there")
        found: dict[str, Any] = (stored or {}).get("status", {})
        return found

    def edit(self, kube: FakeKube, name: str, resource: Resource = TRAINING_JOBS, **spec: Any) -> None:
        namespace = "red" if resource.namespaced else ""
        found = kube.stored(resource, name, namespace)
        assert found is not None
        metadata = found["metadata"] | {"generation": found["metadata"]["generation"] + 1}
        kube.put(resource, found | {"metadata": metadata, "spec": found["spec"] | spec})

    def holds(self, kube: FakeKube, uid: str) -> bool:
        """The job of this uid has GPUs, or a pod of it is there."""
        jobs = [one for (kind, _), one in kube._objects.items() if kind == TRAINING_JOBS]
        placed = any(one["metadata"]["uid"] == uid and (one.get("status") or {}).get("placement") for one in jobs)
        pods = [one for (kind, _), one in kube._objects.items() if kind == PODS]
        return placed or any(one["metadata"]["labels"][names.LABEL_JOB_UID] == uid for one in pods)


async def forward(seconds: float) -> None:
    """Let time pass."""
    await asyncio.sleep(seconds)
