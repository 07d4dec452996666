"""One replica of the operator on the double of the API server, in simulated time.

Nodes n1 and n2 have two simulated GPUs each, and the queue `red` serves the namespace `red`. The whole operator is the
real one: only the API server, the watch and the clock are the test's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import (
    GPU_NODES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    QUEUES,
    SECRETS,
    SERVICES,
    TRAINING_JOBS,
    Document,
)
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.replica import Operator
from cotenant.controller.settings import Settings
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.plan import Plan
from tests.controller.builders import T0
from tests.support.fake_kube import FakeKube

SETTINGS = Settings(batch_window_s=0.01, tick_s=1.0, identity="replica", protected_runtime_s=0)
WATCH_S = 0.05
NODE_NAMES = ("n1", "n2")


class Replica:
    """Leads from the start; setting `leads` to False is the end of its leadership."""

    def __init__(self, kube: FakeKube | None = None) -> None:
        self.leads = True
        self.kube = kube or new_kube()
        self.kube.before_write = Fence(lambda: self.leads).check
        self.operator = Operator(self.kube, Leadership(lambda: self.leads), SETTINGS, Metrics(), clock=simulated_now)

    async def run(self, seconds: float = 3.0, *, watch_s: float = WATCH_S) -> None:
        """Run the scheduling loop for this long, with watch events delivered; then stop it as if killed."""
        loop = asyncio.create_task(self.operator.loop.run())
        ends_at = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < ends_at:
            self.kube.deliver(self.operator.feed.on_event)
            await asyncio.sleep(watch_s)
            if loop.done():
                loop.result()
        loop.cancel()

    def lose(self) -> None:
        self.leads = False

    def observe(self) -> None:
        """Take in what the watch hands on, as one cycle does before it decides."""
        self.kube.deliver(self.operator.feed.on_event)
        self.operator.cluster.sync(time.time())

    def decide(self) -> Plan:
        """Plan and assume, without carrying anything out."""
        self.observe()
        plan = self.operator.loop.schedule(self.operator.cluster.snapshot(time.time()))
        self.operator.cluster.assume(plan, time.time())
        return plan

    def held(self) -> dict[str, list[str]]:
        """Job → GPUs that the next decision takes for held by it."""
        self.observe()
        jobs = self.operator.cluster.snapshot(time.time()).jobs
        return {
            job.key: [gpu.uuid for part in job.placement.nodes for rank in part.ranks for gpu in rank.gpus]
            for job in jobs
            if job.placement is not None
        }


SECRET = "cotenant-token-uid-7-1"
"""Of the first attempt of the first job that is submitted to `new_kube`."""


def new_kube() -> FakeKube:
    kube = FakeKube()
    for name in NODE_NAMES:
        kube.put(NODES, node(name))
        kube.put(GPU_NODES, gpu_node(name))
    kube.put(NAMESPACES, {"metadata": {"name": "red"}})
    spec = {"namespaces": ["red"], "quotas": [{"guaranteed": 4}]}
    kube.put(QUEUES, {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "red"}, "spec": spec})
    return kube


def node(name: str) -> Document:
    status = {"allocatable": {"cpu": "8", "memory": "64Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name}, "spec": {}, "status": status}


def gpu_node(name: str, *, at: float = T0) -> Document:
    gpus = [{"uuid": f"GPU-{name}-{i}", "index": i, "class": "H100", "memoryMiB": 81_920} for i in range(2)]
    return {
        "apiVersion": names.API_VERSION,
        "kind": "GPUNode",
        "metadata": {"name": name},
        "status": {"heartbeat": datetime.fromtimestamp(at, UTC).isoformat(), "gpus": gpus, "simulated": True},
    }


def submit(kube: FakeKube, name: str = "train", workers: int = 4, **metadata: Any) -> Document:
    """A job whose workers want a whole GPU each: with four it wants all there are."""
    spec = {"queue": "red", "workers": workers, "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}}
    return kube.put(
        TRAINING_JOBS,
        {
            "apiVersion": names.API_VERSION,
            "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": "red", **metadata},
            "spec": spec,
        },
    )


def status(kube: FakeKube, name: str = "train") -> dict[str, Any]:
    found: dict[str, Any] = (kube.stored(TRAINING_JOBS, name, "red") or {}).get("status", {})
    return found


def phase(kube: FakeKube, name: str = "train") -> str | None:
    return status(kube, name).get("phase")


async def granted(kube: FakeKube) -> dict[str, list[str]]:
    """Pod → the GPUs in its annotation; `!` before the name of one that was asked to end."""
    found = {}
    for pod in (await kube.list(PODS)).items:
        metadata = pod["metadata"]
        ranks = json.loads(metadata["annotations"][names.ANNOTATION_PLACEMENT])["ranks"]
        mark = "!" if "deletionTimestamp" in metadata else ""
        found[mark + metadata["name"]] = [uuid for rank in sorted(ranks) for uuid in ranks[rank]]
    return found


def writes(kube: FakeKube) -> list[str]:
    return [call for call in kube.calls if not call.startswith(("GET", "LIST"))]


def simulated_now() -> float:
    """Unix seconds on the clock of the event loop."""
    return T0 + asyncio.get_running_loop().time()


def simulate_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the event loop's clock as the wall clock, and run work for threads at once."""

    async def at_once(function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    monkeypatch.setattr("time.time", simulated_now)
    monkeypatch.setattr("asyncio.to_thread", at_once)


async def start_pods(kube: FakeKube) -> None:
    """Play the kube-scheduler and the kubelets: bind every pod to its node, and start it."""
    for pod in (await kube.list(PODS)).items:
        where = json.loads(pod["metadata"]["annotations"][names.ANNOTATION_PLACEMENT])["node"]
        ready = {"type": "Ready", "status": "True"}
        running = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [ready]}
        kube.put(PODS, pod | {"spec": pod["spec"] | {"nodeName": where}, "status": running})


async def end_pods(kube: FakeKube) -> None:
    """Play the kubelets: end the pods that were asked to end."""
    for pod in (await kube.list(PODS)).items:
        if "deletionTimestamp" in pod["metadata"]:
            kube.remove(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])


def collect_garbage(kube: FakeKube, owner_uid: str) -> None:
    """Play the garbage collector: delete the objects of a TrainingJob that is gone."""
    for resource in (NETWORK_POLICIES, SERVICES, SECRETS, PODS):
        for name in ("train", f"{names.SECRET_PREFIX}{owner_uid}-1", "train-1-0"):
            found = kube.stored(resource, name, "red")
            if found and found["metadata"]["ownerReferences"][0]["uid"] == owner_uid:
                kube.remove(resource, name, "red")
