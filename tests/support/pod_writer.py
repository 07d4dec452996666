"""Nodes without kubelets, to measure and fault-test the operator on a real API server: their pods run nothing.

The kube-scheduler binds pods as always. `PodWriter` then writes the status of every bound pod as a kubelet would:
running and ready, after a while succeeded, and gone when it was deleted. It runs nothing, so thousands cost little.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cotenant import contract, names
from cotenant.controller.client.kube import GPU_NODES, LEASES, NODES, PODS, Outcome
from cotenant.controller.client.rest import RestKube

GIB = 1024


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True, kw_only=True)
class Hardware:
    """The nodes to play."""

    nodes: int
    gpus: int
    gpu_class: str = "H100"
    memory_mib: int = 80 * GIB
    prefix: str = "played"

    def names(self) -> list[str]:
        return [f"{self.prefix}-{index}" for index in range(self.nodes)]


@dataclass(slots=True, kw_only=True)
class PodWriter:
    """Kubelets of the played nodes, while its `async with` block lasts. `run_s`: seconds that a pod runs."""

    kube: RestKube
    hardware: Hardware
    run_s: Callable[[dict[str, Any]], float]
    exit_code: Callable[[dict[str, Any]], int] = lambda pod: 0
    every_s: float = 0.2
    plays_pods: bool = True
    """Else nodes alone: somebody else plays their pods."""
    patient: bool = False
    """A pod that was asked to end runs on for as long as its grace period lets it."""
    _ends: dict[str, float] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def __aenter__(self) -> PodWriter:
        await asyncio.gather(*(self._node(name) for name in self.hardware.names()))
        self._tasks = [asyncio.create_task(self._beat())]
        if self.plays_pods:
            self._tasks.append(asyncio.create_task(self._play()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _node(self, name: str) -> None:
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}  # as a kubelet labels its node
        metadata = {"name": name, "labels": labels}
        await self.kube.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        room = {"cpu": "4096", "memory": "64Ti", "pods": "100000"}
        ready = {"type": "Ready", "status": "True", "reason": "Played", "lastHeartbeatTime": stamp()}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        await self.kube.patch(NODES, name, {"status": status}, subresource="status")
        await self.kube.patch(NODES, name, {"spec": {"taints": []}})
        body = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": name}}
        await self.kube.create(GPU_NODES, body)

    async def _beat(self) -> None:
        while True:
            await asyncio.gather(*(self._beat_one(name) for name in self.hardware.names()))
            await asyncio.sleep(10)

    async def _beat_one(self, name: str) -> None:
        gpus = [
            {
                "uuid": f"GPU-{name}-{index}",
                "index": index,
                "class": self.hardware.gpu_class,
                "memoryMiB": self.hardware.memory_mib,
                "healthy": True,
            }
            for index in range(self.hardware.gpus)
        ]
        status = {"heartbeat": stamp(), "simulated": True, "isolation": "None", "gpus": gpus}
        await self.kube.patch(GPU_NODES, name, {"status": status}, subresource="status")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
        made = await self.kube.create(LEASES, lease, "kube-node-lease")
        if made.outcome is Outcome.EXISTS:
            await self.kube.patch(LEASES, name, {"spec": spec}, namespace="kube-node-lease")

    async def _play(self) -> None:
        ours = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
        while True:
            started = time.monotonic()
            pods = (await self.kube.list(PODS, labels=ours)).items
            await asyncio.gather(*(self._one(pod) for pod in pods if pod["spec"].get("nodeName")))
            await asyncio.sleep(max(0.0, self.every_s - (time.monotonic() - started)))

    async def _one(self, pod: dict[str, Any]) -> None:
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        phase = pod["status"].get("phase")
        if "deletionTimestamp" in metadata:
            ends_at = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()
            if self.patient and time.time() < ends_at:
                return
            await self.kube.delete(PODS, metadata["name"], metadata["namespace"], uid=uid, grace_s=0)
        elif phase == "Pending":
            self._ends[uid] = time.monotonic() + self.run_s(pod)
            await self._write_status(pod, running())
        elif phase == "Running" and time.monotonic() >= self._ends.setdefault(uid, time.monotonic()):
            await self._write_status(pod, ended(pod, self.exit_code(pod)))

    async def _write_status(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        await self.kube.patch(PODS, metadata["name"], body, namespace=metadata["namespace"], subresource="status")


def running() -> dict[str, Any]:
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": stamp()}],
        "containerStatuses": [_container({"running": {"startedAt": stamp()}}, ready=True)],
    }


def ended(pod: dict[str, Any], code: int) -> dict[str, Any]:
    labels = pod["metadata"]["labels"]
    termination = contract.Termination(
        node_rank=int(labels[names.LABEL_NODE_RANK]),
        attempt=int(labels[names.LABEL_ATTEMPT]),
        code=code,
        reason="Completed" if code == 0 else "UserError",
        results={"accuracy": 0.97} if code == 0 and labels[names.LABEL_NODE_RANK] == "0" else {},
    )
    state = {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "message": termination.to_json(),
        "startedAt": stamp(),
        "finishedAt": stamp(),
    }
    return {
        "phase": "Succeeded" if code == 0 else "Failed",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": stamp()}],
        "containerStatuses": [_container({"terminated": state}, ready=False)],
    }


def _container(state: dict[str, Any], *, ready: bool) -> dict[str, Any]:
    return {
        "name": names.CONTAINER,
        "image": "played",
        "imageID": "played",
        "ready": ready,
        "restartCount": 0,
        "state": json.loads(json.dumps(state)),
    }
