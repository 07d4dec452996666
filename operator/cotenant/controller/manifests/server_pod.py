"""Pure builder of a parameter server's pod: no rank, no GPU, nothing of the tenant's program.

A node without another server of the attempt is preferred; for the rest it is placed as `cpu_pod` says.
"""

from __future__ import annotations

from typing import Any

from cotenant import names
from cotenant.controller.client.kube import Document
from cotenant.controller.manifests import cpu_pod
from cotenant.controller.manifests.attempt import Attempt, CpuPod
from cotenant.controller.manifests.base_pod import base_pod
from cotenant.controller.settings import Settings


def pod(attempt: Attempt, index: int, settings: Settings) -> Document:
    """Build the pod of one server. Raises ValueError where the program of the attempt has none."""
    wanted = attempt.program.servers
    if wanted is None:
        raise ValueError(f"the program of {attempt.job} has no parameter servers")
    made = base_pod(attempt, len(attempt.placement.nodes) + index, settings)
    made["metadata"]["labels"][names.LABEL_SERVER] = str(index)
    made["spec"] |= {
        "topologySpreadConstraints": [_spread(attempt)],
        "containers": [_container(attempt, made["spec"]["containers"][0], wanted, settings)],
        "volumes": [{"name": "cotenant-tmp", "emptyDir": {}}],
    }
    cpu_pod.place(made, wanted, settings)
    return made


def _container(attempt: Attempt, launcher: dict[str, Any], wanted: CpuPod, settings: Settings) -> dict[str, Any]:
    return launcher | {
        "env": [{"name": "HOME", "value": "/tmp"}, *launcher["env"], *cpu_pod.WITHOUT_GPUS],
        "resources": cpu_pod.resources(attempt, wanted, settings),
        "volumeMounts": [{"name": "cotenant-tmp", "mountPath": "/tmp"}],
    }


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
