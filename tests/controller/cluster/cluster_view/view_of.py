"""Objects put into a `ClusterView`, and what the core sees of them."""

from __future__ import annotations

from typing import Any

from cotenant import names
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.kube import TRAINING_JOBS
from cotenant.core.model.objects import Job, NodePlacement
from tests.controller.builders import (
    T0,
    UID,
    ObservedCluster,
    job_document,
)


def put_job(
    cluster: ObservedCluster, status: TrainingJobStatus | None = None, *, version: int = 5, **spec: Any
) -> None:
    document = job_document(status=status.to_document() if status else None, **spec)
    document["metadata"]["resourceVersion"] = str(version)
    cluster.cache.put(TRAINING_JOBS, document)


def held_gpus(cluster: ObservedCluster, now: float = T0 + 100) -> dict[str, list[str]]:
    """Key of the job → GPUs that it holds, for the core."""
    cluster.sync(now)
    return {
        job.key.replace(UID, "uid"): [gpu.uuid for part in nodes(job) for rank in part.ranks for gpu in rank.gpus]
        for job in cluster.snapshot(now).jobs
        if job.placement is not None
    }


def nodes(job: Job) -> list[NodePlacement]:
    return [part for one in (job.placement, job.resizing_from) if one for part in one.nodes]


NODE = {
    "metadata": {"name": "n1", "uid": "n", "resourceVersion": "1"},
    "status": {
        "allocatable": {"cpu": "8", "memory": "16Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
GPU_NODE: dict[str, Any] = {
    "apiVersion": names.API_VERSION,
    "kind": "GPUNode",
    "metadata": {"name": "n1", "uid": "g", "resourceVersion": "1"},
    "status": {
        "heartbeat": "2026-01-01T00:00:00Z",
        "gpus": [{"uuid": "GPU-n1-0", "index": 0, "class": "H100", "memoryMiB": 81920}],
    },
}
