"""Pure builder of a parameter server's pod: no rank, no GPU, nothing of the tenant's program.

The kube-scheduler places it by its requests of CPU and memory; a node without GPUs and without another server of the
attempt is preferred. Placements count GPUs and do not contain these pods; what they take of a GPU node's CPU and
memory, once they are bound there, the informer cache counts with what other tenants' pods take.
"""

from __future__ import annotations

from typing import Any

from cotenant import names
from cotenant.controller.client.kube import Document
from cotenant.controller.manifests.attempt import Attempt, ServerRequest
from cotenant.controller.manifests.base_pod import base_pod
from cotenant.controller.manifests.quota_amounts import with_amounts
from cotenant.controller.settings import Settings


def pod(attempt: Attempt, index: int, settings: Settings) -> Document:
    """Build the pod of one server. Raises ValueError where the program of the attempt has none."""
    wanted = attempt.program.servers
    if wanted is None:
        raise ValueError(f"the program of {attempt.job} has no parameter servers")
    node_rank = len(attempt.placement.nodes) + index
    made = base_pod(attempt, node_rank, settings)
    made["metadata"]["labels"][names.LABEL_SERVER] = str(index)
    made["spec"] |= {
        "affinity": {"nodeAffinity": _preferably_without_gpus()},
        "topologySpreadConstraints": [_spread(attempt)],
        "containers": [_container(attempt, made["spec"]["containers"][0], wanted, settings)],
        "volumes": [{"name": "cotenant-tmp", "emptyDir": {}}],
    }
    if wanted.node_selector:
        made["spec"]["nodeSelector"] = dict(wanted.node_selector)
    tolerated = settings.server_toleration_list + (settings.toleration_list if wanted.tolerate_gpu_taints else [])
    if tolerated:
        made["spec"]["tolerations"] = tolerated
    return made


def _container(attempt: Attempt, launcher: dict[str, Any], wanted: ServerRequest, settings: Settings) -> dict[str, Any]:
    memory = f"{wanted.memory_mib + settings.reserve_mib}Mi"
    resources = {"requests": {"memory": memory, "cpu": f"{wanted.cpu_milli}m"}, "limits": {"memory": memory}}
    return launcher | {
        "env": [
            {"name": "HOME", "value": "/tmp"},
            *launcher["env"],
            # Where the NVIDIA runtime is the default one, an image that sets "all" would be given all.
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
            {"name": "CUDA_VISIBLE_DEVICES", "value": ""},
        ],
        "resources": with_amounts(resources, attempt.counted, settings.scratch_mib),
        "volumeMounts": [{"name": "cotenant-tmp", "mountPath": "/tmp"}],
    }


def _preferably_without_gpus() -> dict[str, Any]:
    absent = [{"key": key, "operator": "DoesNotExist"} for key in (names.LABEL_GPU_CLASS, names.LABEL_NVIDIA_PRESENT)]
    term = {"weight": 100, "preference": {"matchExpressions": absent}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def _spread(attempt: Attempt) -> dict[str, Any]:
    """Spread servers over nodes: one is as fast as its node's network card, which two would share."""
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {
            "matchLabels": {names.LABEL_JOB_UID: attempt.uid, names.LABEL_ATTEMPT: str(attempt.number)},
            "matchExpressions": [{"key": names.LABEL_SERVER, "operator": "Exists"}],
        },
    }
