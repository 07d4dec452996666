"""Kueue's scheduler alone (`test/performance/scheduler/minimalkueue` of its repository) on the API server of this run.

It gets what its own performance test makes: a flavor, a ClusterQueue with room for all, a LocalQueue and Workloads of
one CPU, without pods. Admitted is counted by its own metric, CPU is that of its process. Its own source bounds
its client at 50 calls a second, with bursts of 100.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.parts.admission.creates import create_copies
from cotenant.controller.client.kube import Document, Resource
from cotenant.controller.client.rest import RestKube

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
FLAVORS = Resource(GROUP, VERSION, "resourceflavors", namespaced=False)
CLUSTER_QUEUES = Resource(GROUP, VERSION, "clusterqueues", namespaced=False)
LOCAL_QUEUES = Resource(GROUP, VERSION, "localqueues")
WORKLOADS = Resource(GROUP, VERSION, "workloads")
PORT = 18478
START_S = 8.0
ADMITTED = "kueue_admitted_workloads_total"
IMAGE = "registry.k8s.io/pause:3.10"
"""Image of pods that are never created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """minimalkueue as a process: its program, its CRDs, its metrics, its CPU."""

    program: Path
    crds: tuple[Document, ...]
    """Of the same version."""
    metric: Callable[[str, int], Awaitable[float]]
    """(name, port) → the sum of its samples."""
    cpu_s: Callable[[int], float]
    """Process id → CPU seconds so far."""


async def measure(kube: RestKube, kubeconfig: str, kueue: Process, namespace: str, count: int) -> dict[str, float]:
    """Figures of `count` Workloads that are created at once."""
    await _prepare(kube, kueue.crds, namespace, count)
    process = await _started(kueue.program, kubeconfig)
    try:
        cpu_before, started = kueue.cpu_s(process.pid), time.monotonic()
        create_s = await create_copies(kubeconfig, WORKLOADS, workload(namespace), "kueue-", count)
        while await kueue.metric(ADMITTED, PORT) < count:
            if process.returncode is not None or time.monotonic() - started > 300:
                raise SystemExit(f"{kueue.program} did not admit {count} Workloads")
            await asyncio.sleep(0.1)
        admitted_s, cpu = time.monotonic() - started, kueue.cpu_s(process.pid) - cpu_before
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    return {
        "kueue_creates_per_s": count / create_s,
        "kueue_admitted_per_s": count / admitted_s,
        "kueue_cpu_ms_per_workload": 1000 * cpu / count,
    }


async def _started(program: Path, kubeconfig: str) -> asyncio.subprocess.Process:
    """Start minimalkueue until it stays up: it exits while the API server's discovery lacks its kinds."""
    environment = os.environ | {"KUBECONFIG": kubeconfig}
    for _ in range(10):
        process = await asyncio.create_subprocess_exec(str(program), f"-metricsPort={PORT}", env=environment)
        try:
            await asyncio.wait_for(process.wait(), START_S)
        except TimeoutError:
            return process
        await asyncio.sleep(2)
    raise SystemExit(f"{program} does not start")


async def _prepare(kube: RestKube, crds: tuple[Document, ...], namespace: str, count: int) -> None:
    for crd in crds:
        await _made(kube, CRDS, crd)
    quota = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": count}]}
    cluster_queue = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    local_queue = _object("LocalQueue", "bench", {"clusterQueue": "bench"}, namespace=namespace)
    for resource, document in (
        (FLAVORS, _object("ResourceFlavor", "any", {})),
        (CLUSTER_QUEUES, _object("ClusterQueue", "bench", cluster_queue)),
        (LOCAL_QUEUES, local_queue),
    ):
        await _made(kube, resource, document)


async def _made(kube: RestKube, resource: Resource, document: Document) -> None:
    for _ in range(300):
        reply = await kube.create(resource, document, document["metadata"].get("namespace", ""))
        if reply.code != 404:  # a CRD is served a moment after it was made
            break
        await asyncio.sleep(0.1)
    if not reply.done:
        raise SystemExit(f"{resource.plural} of Kueue: {reply.message}")


def workload(namespace: str) -> Document:
    container = {"name": "c", "image": IMAGE, "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    pod_set = {"name": "main", "count": 1, "template": template}
    return _object("Workload", "", {"queueName": "bench", "podSets": [pod_set]}, namespace=namespace)


def _object(kind: str, name: str, spec: dict[str, Any], **metadata: str) -> Document:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
