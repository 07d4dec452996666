"""Pure builder of a parameter server's pod: no rank, no GPU, nothing of the tenant's program. Called by `births`.

The kube-scheduler finds it a node by what it asks of CPU and memory; a node without GPUs and without another server of
the attempt is preferred. GPUs are counted by placements, which do not speak of these pods; what they take of a GPU
node's CPU and memory, once they are bound there, `mirror` counts with what other people's pods take.
"""

from __future__ import annotations

from typing import Any

from cotenant import names
from cotenant.controller.client.kube import Document
from cotenant.controller.manifests.attempt import Attempt, Servers
from cotenant.controller.manifests.worker_pod import frame, launcher, told
from cotenant.controller.settings import Settings


def pod(attempt: Attempt, index: int, settings: Settings) -> Document:
    """The pod of one server. The attempt has some, so its program says what they ask for."""
    wanted = attempt.program.servers
    if wanted is None:
        raise ValueError(f"the program of {attempt.job} has no parameter servers")
    node_rank = len(attempt.placement.nodes) + index
    made = frame(attempt, node_rank, settings)
    made["metadata"]["labels"][names.LABEL_SERVER] = str(index)
    made["spec"] |= {
        "affinity": {"nodeAffinity": _rather_without_gpus()},
        "topologySpreadConstraints": [_apart(attempt)],
        "containers": [_container(attempt, node_rank, wanted, settings)],
        "volumes": [{"name": "cotenant-tmp", "emptyDir": {}}],
    }
    if wanted.node_selector:
        made["spec"]["nodeSelector"] = dict(wanted.node_selector)
    tolerated = settings.server_toleration_list + (settings.toleration_list if wanted.tolerate_gpu_taints else [])
    if tolerated:
        made["spec"]["tolerations"] = tolerated
    return made


def _container(attempt: Attempt, node_rank: int, wanted: Servers, settings: Settings) -> dict[str, Any]:
    memory = f"{wanted.memory_mib + settings.reserve_mib}Mi"
    return launcher(attempt) | {
        "env": [
            {"name": "HOME", "value": "/tmp"},
            *told(attempt, node_rank, settings),
            # Where the NVIDIA runtime is the default one, an image that says "all" would be given all.
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
            {"name": "CUDA_VISIBLE_DEVICES", "value": ""},
        ],
        "resources": {"requests": {"memory": memory, "cpu": f"{wanted.cpu_milli}m"}, "limits": {"memory": memory}},
        "volumeMounts": [{"name": "cotenant-tmp", "mountPath": "/tmp"}],
    }


def _rather_without_gpus() -> dict[str, Any]:
    marks = [{"key": key, "operator": "DoesNotExist"} for key in (names.LABEL_GPU_CLASS, names.LABEL_NVIDIA_PRESENT)]
    term = {"weight": 100, "preference": {"matchExpressions": marks}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def _apart(attempt: Attempt) -> dict[str, Any]:
    """A server is as fast as its node's network card, which two servers would share."""
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {
            "matchLabels": {names.LABEL_JOB_UID: attempt.uid, names.LABEL_ATTEMPT: str(attempt.number)},
            "matchExpressions": [{"key": names.LABEL_SERVER, "operator": "Exists"}],
        },
    }
