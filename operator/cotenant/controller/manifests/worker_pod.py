"""Pure builder of worker pods: one attempt of a job → one pod per node of its placement. No clock, no client.

Pods get nodeAffinity instead of nodeName, so that the kube-scheduler still checks CPU, memory, taints and volumes.
"""

from __future__ import annotations

import re
from typing import Any

from cotenant import names
from cotenant.api.resources.job_spec import reserved_env
from cotenant.controller.client.kube import Document
from cotenant.controller.isolation.node_isolation import NodeIsolation
from cotenant.controller.isolation.rendering import Rendered, rendered
from cotenant.controller.manifests.attempt import Attempt
from cotenant.controller.manifests.base_pod import base_pod, scratch_mib
from cotenant.controller.manifests.placement_annotation import placement_to_json
from cotenant.controller.manifests.quota_amounts import with_amounts
from cotenant.controller.settings import Settings


def pod(attempt: Attempt, node_rank: int, settings: Settings, node: NodeIsolation) -> Rendered:
    """Build the pod of one node, GPUs included, and what has to be there before it."""
    placement = attempt.placement.nodes[node_rank]
    made = base_pod(attempt, node_rank, settings)
    made["metadata"]["annotations"][names.ANNOTATION_PLACEMENT] = placement_to_json(placement)
    made["spec"] |= {
        "affinity": {"nodeAffinity": _required_on(placement.node)},
        "tolerations": settings.toleration_list,
        "containers": [program_container(attempt, made, _resources(attempt, node_rank, settings))],
        "volumes": program_volumes(
            attempt, _memory_limit_mib(attempt, node_rank, settings), scratch_mib(attempt, node_rank, settings)
        ),
    }
    return rendered(made, placement, node, settings.runtime_class)


def program_container(attempt: Attempt, made: Document, resources: dict[str, Any]) -> dict[str, Any]:
    """The container of a pod that runs the tenant's program, from what all pods have in common."""
    launcher: dict[str, Any] = made["spec"]["containers"][0]
    return launcher | {
        "workingDir": names.CODE_PATH,
        "env": _program_env(attempt, launcher["env"]),
        "resources": resources,
        "volumeMounts": _program_mounts(attempt),
    }


def _program_env(attempt: Attempt, launcher_env: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Variables of the tenant first, the operator's last: of two with one name the last one counts."""
    tenant = [dict(entry) for entry in attempt.program.env if not is_reserved(str(entry.get("name", "")))]
    home = [] if any(entry["name"] == "HOME" for entry in tenant) else [{"name": "HOME", "value": "/tmp"}]
    return [
        *tenant,
        *home,  # the root file system is read-only, and caches go to the home directory
        *launcher_env,
    ]


def is_reserved(name: str) -> bool:
    """Refuse once more what the API refuses: a document from an older CRD is held to the same table."""
    return any(re.fullmatch(row.names, name) for row in reserved_env.DENIED)


def _resources(attempt: Attempt, node_rank: int, settings: Settings) -> dict[str, Any]:
    """Requests and limits: what the ranks ask for, and what the launcher and Ray need beside them."""
    asked = attempt.amounts_on(node_rank)
    reserve = settings.reserve_head_mib if node_rank == 0 else settings.reserve_mib
    requests = {"memory": f"{asked.memory_mib + reserve}Mi"}
    if asked.cpu_milli:
        requests["cpu"] = f"{asked.cpu_milli}m"
    if asked.scratch_mib:
        requests["ephemeral-storage"] = f"{asked.scratch_mib}Mi"
    limit = _memory_limit_mib(attempt, node_rank, settings)
    resources = {"requests": requests} | ({"limits": {"memory": f"{limit}Mi"}} if limit else {})
    return with_amounts(resources, attempt.counted, settings.scratch_mib)


def _memory_limit_mib(attempt: Attempt, node_rank: int, settings: Settings) -> int:
    """Limit of the pod in MiB; 0 where the tenant named no memory, so that the pod has none."""
    reserve = settings.reserve_head_mib if node_rank == 0 else settings.reserve_mib
    return attempt.amounts_on(node_rank).memory_mib + reserve if attempt.each.memory_mib else 0


def program_volumes(attempt: Attempt, limit_mib: int, scratch_limit_mib: int) -> list[dict[str, Any]]:
    """Volumes of a pod that runs the tenant's program; a limit of 0 is none."""
    shm: dict[str, Any] = {"medium": "Memory"} | ({"sizeLimit": f"{limit_mib // 2}Mi"} if limit_mib else {})
    scratch = {"sizeLimit": f"{scratch_limit_mib}Mi"} if scratch_limit_mib else {}
    return [
        {"name": "cotenant-tmp", "emptyDir": scratch},
        {"name": "cotenant-shm", "emptyDir": shm},
        {"name": "cotenant-code", **(attempt.program.code["source"] if attempt.program.code else {"emptyDir": {}})},
        *(dict(volume) for volume in attempt.program.volumes),
    ]


def _program_mounts(attempt: Attempt) -> list[dict[str, Any]]:
    code: dict[str, Any] = {"name": "cotenant-code", "mountPath": names.CODE_PATH}
    if attempt.program.code is not None:
        code["readOnly"] = True
        code |= {key: value for key, value in attempt.program.code.items() if key == "subPath"}
    return [
        {"name": "cotenant-tmp", "mountPath": "/tmp"},
        {"name": "cotenant-shm", "mountPath": "/dev/shm"},
        code,
        *(dict(mount) for mount in attempt.program.mounts),
    ]


def _required_on(node: str) -> dict[str, Any]:
    """Node affinity by metadata.name as a field: the kube-scheduler then looks at that one node and at no other."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
