"""Node rules and requests of pods without a GPU: parameter servers and evaluators. Pure.

The kube-scheduler places such a pod by its requests of CPU and memory; a node without GPUs is preferred. Placements
count GPUs and do not contain these pods; what they take of a GPU node's CPU and memory, once they are bound there, the
informer cache counts with what other tenants' pods take.
"""

from __future__ import annotations

from typing import Any

from cotenant import names
from cotenant.controller.client.kube import Document
from cotenant.controller.manifests.attempt import Attempt, CpuPod
from cotenant.controller.manifests.quota_amounts import with_amounts
from cotenant.controller.settings import Settings

WITHOUT_GPUS = (
    # Where the NVIDIA runtime is the default one, an image that sets "all" would be given all.
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
    {"name": "CUDA_VISIBLE_DEVICES", "value": ""},
)
"""Variables of the container, after all others."""

LINUX = {"kubernetes.io/os": "linux"}
"""Label of nodes that the launcher runs on. The kube-scheduler does not ask for an image's system."""


def place(made: Document, wanted: CpuPod, settings: Settings) -> None:
    """Add to the pod which nodes it may run on, and which it prefers."""
    made["spec"]["affinity"] = {"nodeAffinity": _preferably_without_gpus()}
    made["spec"]["nodeSelector"] = dict(wanted.node_selector) | LINUX
    tolerated = settings.server_toleration_list + (settings.toleration_list if wanted.tolerate_gpu_taints else [])
    if tolerated:
        made["spec"]["tolerations"] = tolerated


def resources(attempt: Attempt, wanted: CpuPod, settings: Settings) -> dict[str, dict[str, str]]:
    memory = f"{wanted.memory_mib + settings.reserve_mib}Mi"
    asked = {"requests": {"memory": memory, "cpu": f"{wanted.cpu_milli}m"}, "limits": {"memory": memory}}
    return with_amounts(asked, attempt.counted, settings.scratch_mib)


def _preferably_without_gpus() -> dict[str, Any]:
    absent = [{"key": key, "operator": "DoesNotExist"} for key in (names.LABEL_GPU_CLASS, names.LABEL_NVIDIA_PRESENT)]
    term = {"weight": 100, "preference": {"matchExpressions": absent}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
