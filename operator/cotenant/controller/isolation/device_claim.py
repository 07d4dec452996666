"""The ResourceClaim of one pod, which pins the GPUs that the ledger chose. Pure."""

from __future__ import annotations

from typing import Any, Final

from cotenant import names
from cotenant.api.conversion.device_claims import COMPUTE, MEMORY, UUID, memory_quantity
from cotenant.controller.client.kube import Document
from cotenant.controller.isolation.node_isolation import amounts_by_gpu
from cotenant.core.model.objects import NodePlacement

POD_CLAIM: Final = "gpus"
"""Name by which the pod and its container speak of the claim."""
LABELS: Final = (names.LABEL_MANAGED_BY, names.LABEL_JOB, names.LABEL_JOB_UID, names.LABEL_ATTEMPT)

TOLERATIONS: Final = [
    # This taint stands for pods that were made before their node offered its GPUs. They have no claim, but our ledger
    # counts them.
    {"key": names.TAINT_HELD, "operator": "Exists", "effect": "NoSchedule"},
    # The operator itself ends jobs on a sick GPU, and charges nobody. A taint keeps new pods off unhealthy GPUs.
    {"key": names.TAINT_DRAIN, "operator": "Exists", "effect": "NoExecute"},
]


def resource_claim(placement: NodePlacement, pod: Document) -> Document:
    """The claim of one pod, by the metadata of the pod: it has the pod's name and the pod's owner."""
    amounts = amounts_by_gpu(placement).items()
    requests = [_request(number, uuid, *amount) for number, (uuid, amount) in enumerate(amounts)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": pod["name"],
            "namespace": pod["namespace"],
            "labels": {key: value for key, value in pod["labels"].items() if key in LABELS},
            "ownerReferences": pod["ownerReferences"],
        },
        "spec": {"devices": {"requests": requests}},
    }


def _request(number: int, uuid: str, memory_mib: int, compute_milli: int) -> dict[str, Any]:
    return {
        "name": f"gpu-{number}",
        "exactly": {
            "deviceClassName": names.DRA_DRIVER,
            "selectors": [{"cel": {"expression": f'device.attributes["{names.DRA_DRIVER}"].{UUID} == "{uuid}"'}}],
            "capacity": {"requests": {MEMORY: memory_quantity(memory_mib), COMPUTE: str(compute_milli)}},
            "tolerations": TOLERATIONS,
        },
    }
