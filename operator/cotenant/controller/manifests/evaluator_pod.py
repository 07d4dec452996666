"""Pure builder of the evaluator's pod: the tenant's program, code and volumes, without a rank and without a GPU.

Its kubelet starts a container that failed again, with pauses that grow to five minutes. A claim that one node alone can
mount keeps it on the node of rank 0.
"""

from __future__ import annotations

from typing import Any

from cotenant import names
from cotenant.controller.client.kube import Document
from cotenant.controller.manifests import cpu_pod
from cotenant.controller.manifests.attempt import Attempt
from cotenant.controller.manifests.base_pod import base_pod
from cotenant.controller.manifests.worker_pod import program_container, program_volumes
from cotenant.controller.settings import Settings


def pod(attempt: Attempt, settings: Settings, *, beside_rank_0: bool = False) -> Document:
    """Build the pod. Raises ValueError where the program of the attempt has no evaluator."""
    program = attempt.program.evaluator
    if program is None:
        raise ValueError(f"the program of {attempt.job} has no evaluator")
    made = base_pod(attempt, attempt.evaluator_rank, settings)
    container = program_container(attempt, made, cpu_pod.resources(attempt, program.pod, settings))
    container["env"] += cpu_pod.WITHOUT_GPUS
    limit_mib = program.pod.memory_mib + settings.reserve_mib
    made["spec"] |= {
        "restartPolicy": "OnFailure",
        "containers": [container],
        "volumes": program_volumes(attempt, limit_mib, settings.scratch_mib),
    }
    cpu_pod.place(made, program.pod, settings)
    if beside_rank_0:
        made["spec"]["affinity"]["podAffinity"] = _beside_rank_0(attempt)
    return made


def _beside_rank_0(attempt: Attempt) -> dict[str, Any]:
    labels = {
        names.LABEL_JOB_UID: attempt.uid,
        names.LABEL_ATTEMPT: str(attempt.number),
        names.LABEL_NODE_RANK: "0",
    }
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
