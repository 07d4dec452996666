"""Pure builders of pods: one attempt of a job → one pod per node of its placement. No clock, no randomness, no client.
`server_pods` makes those of parameter servers in the same frame.

Pods get nodeAffinity instead of nodeName, so that the kube-scheduler still checks CPU, memory, taints and volumes.
They keep the restricted Pod Security profile and carry no service-account token. Names are deterministic and all is
owned by the TrainingJob, so creating twice is harmless and deleting the job deletes it all. `apply` sends what is
built here.
"""

from __future__ import annotations

import re
from typing import Any

from cotenant import contract, names
from cotenant.api.resources import reserved_env
from cotenant.controller.client.kube import Document
from cotenant.controller.manifests.attempt import Attempt, placement_to_json
from cotenant.controller.manifests.gpu_isolation import IsolationPath
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import WHOLE, GrantedGpu

USER = 65532


def pod(attempt: Attempt, node_rank: int, settings: Settings, path: IsolationPath) -> Document:
    """The pod of one node, GPUs included."""
    placement = attempt.placement.nodes[node_rank]
    made = frame(attempt, node_rank, settings)
    made["metadata"]["annotations"] = {names.ANNOTATION_PLACEMENT: placement_to_json(placement)}
    made["spec"] |= {
        "affinity": {"nodeAffinity": _only_on(placement.node)},
        "tolerations": settings.toleration_list,
        "containers": [_container(attempt, node_rank, settings)],
        "volumes": _volumes(attempt, node_rank, settings),
    }
    return path.render(placement, made).pod


def frame(attempt: Attempt, node_rank: int, settings: Settings) -> Document:
    """What all pods of an attempt have in common; containers, volumes and where it may go are still to come."""
    metadata = attempt.metadata(attempt.pod_name(node_rank))
    metadata["labels"] |= {
        names.LABEL_ATTEMPT: str(attempt.number),
        names.LABEL_NODE_RANK: str(node_rank),
        names.LABEL_QUEUE: attempt.queue,
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "hostname": attempt.pod_name(node_rank),
        "subdomain": attempt.job,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": attempt.grace_s,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if settings.pod_priority_class:
        spec["priorityClassName"] = settings.pod_priority_class
    pull_secrets = [name.strip() for name in settings.image_pull_secrets.split(",") if name.strip()]
    if pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in pull_secrets]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def contract_of(attempt: Attempt, node_rank: int, settings: Settings) -> contract.Contract:
    """What this pod is told: the whole world, and which of its pods it is."""
    program = attempt.program
    domain = f"{attempt.job}.{attempt.namespace}.svc.{settings.cluster_domain}"
    return contract.Contract(
        job=attempt.job,
        namespace=attempt.namespace,
        uid=attempt.uid,
        attempt=attempt.number,
        node_rank=node_rank,
        pods=tuple(
            contract.PodGrant(
                host=f"{attempt.pod_name(index)}.{domain}",
                ranks=tuple(
                    contract.RankGrant(rank=rank.rank, gpus=tuple(_grant(attempt, gpu) for gpu in rank.gpus))
                    for rank in node.ranks
                ),
            )
            for index, node in enumerate(attempt.placement.nodes)
        ),
        mode=program.mode,
        command=program.command,
        entrypoint=program.entrypoint,
        framework=program.framework,
        strategy=program.strategy,
        collective=program.collective,
        precision=program.precision,
        checkpoint=program.checkpoint,
        grace_s=attempt.grace_s,
        workers_min=program.workers_min,
        servers=tuple(
            f"{attempt.pod_name(len(attempt.placement.nodes) + index)}.{domain}" for index in range(attempt.servers)
        ),
        platform=dict(program.platform),
    )


def _grant(attempt: Attempt, gpu: GrantedGpu) -> contract.GpuGrant:
    facts = attempt.gpus.get(gpu.uuid)
    return contract.GpuGrant(
        uuid=gpu.uuid,
        memory_mib=gpu.memory_mib,
        compute_milli=gpu.compute_milli,
        whole=gpu.compute_milli == WHOLE and facts is not None and gpu.memory_mib >= facts.memory_mib,
        simulated=facts is not None and facts.simulated,
    )


def _container(attempt: Attempt, node_rank: int, settings: Settings) -> dict[str, Any]:
    return launcher(attempt) | {
        "workingDir": names.CODE_PATH,
        "env": _env(attempt, node_rank, settings),
        "resources": _resources(attempt, node_rank, settings),
        "volumeMounts": _mounts(attempt),
    }


def launcher(attempt: Attempt) -> dict[str, Any]:
    """The container of every pod: our launcher is its first process."""
    return {
        "name": names.CONTAINER,
        "image": attempt.program.image,
        "command": ["python", "-P", "-m", "cotenant_worker"],
        "ports": [{"name": "progress", "containerPort": names.PROGRESS_PORT}],
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": names.PROGRESS_PORT},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 3,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePath": names.TERMINATION_PATH,
        "terminationMessagePolicy": "File",
    }


def _env(attempt: Attempt, node_rank: int, settings: Settings) -> list[dict[str, Any]]:
    """The tenant's first, ours last: of two of one name the last one counts."""
    theirs = [dict(entry) for entry in attempt.program.env if not reserved(str(entry.get("name", "")))]
    home = [] if any(entry["name"] == "HOME" for entry in theirs) else [{"name": "HOME", "value": "/tmp"}]
    return [
        *theirs,
        *home,  # the root file system is read-only, and caches go to the home directory
        *told(attempt, node_rank, settings),
    ]


def told(attempt: Attempt, node_rank: int, settings: Settings) -> list[dict[str, Any]]:
    """What every launcher is told: its contract, the attempt's token, its own address."""
    variables = contract_of(attempt, node_rank, settings).to_environment()
    return [
        *({"name": name, "value": part} for name, part in variables.items()),
        {"name": "RAY_AUTH_MODE", "value": "token"},
        *_token(attempt),
        {"name": names.ENV_POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]


def _token(attempt: Attempt) -> list[dict[str, Any]]:
    if not attempt.needs_token:
        return []
    key = {"name": attempt.secret_name, "key": names.SECRET_TOKEN_KEY}
    return [{"name": names.ENV_RAY_TOKEN, "valueFrom": {"secretKeyRef": key}}]


def reserved(name: str) -> bool:
    """Refused at the door already; a document from an older CRD is held to the same table."""
    return any(re.fullmatch(row.names, name) for row in reserved_env.DENIED)


def _resources(attempt: Attempt, node_rank: int, settings: Settings) -> dict[str, Any]:
    """What the ranks asked for, and what the launcher and Ray need beside them."""
    ranks = len(attempt.placement.nodes[node_rank].ranks)
    reserve = settings.reserve_head_mib if node_rank == 0 else settings.reserve_mib
    requests = {"memory": f"{ranks * attempt.memory_mib + reserve}Mi"}
    if attempt.cpu_milli:
        requests["cpu"] = f"{ranks * attempt.cpu_milli}m"
    limit = _memory_limit_mib(attempt, node_rank, settings)
    return {"requests": requests} | ({"limits": {"memory": f"{limit}Mi"}} if limit else {})


def _memory_limit_mib(attempt: Attempt, node_rank: int, settings: Settings) -> int:
    """0: the tenant named no memory, so the pod has no limit."""
    ranks = len(attempt.placement.nodes[node_rank].ranks)
    reserve = settings.reserve_head_mib if node_rank == 0 else settings.reserve_mib
    return ranks * attempt.memory_mib + reserve if attempt.memory_mib else 0


def _volumes(attempt: Attempt, node_rank: int, settings: Settings) -> list[dict[str, Any]]:
    limit = _memory_limit_mib(attempt, node_rank, settings)
    shm: dict[str, Any] = {"medium": "Memory"} | ({"sizeLimit": f"{limit // 2}Mi"} if limit else {})
    scratch = {"sizeLimit": f"{settings.scratch_mib}Mi"} if settings.scratch_mib else {}
    return [
        {"name": "cotenant-tmp", "emptyDir": scratch},
        {"name": "cotenant-shm", "emptyDir": shm},
        {"name": "cotenant-code", **(attempt.program.code["source"] if attempt.program.code else {"emptyDir": {}})},
        *(dict(volume) for volume in attempt.program.volumes),
    ]


def _mounts(attempt: Attempt) -> list[dict[str, Any]]:
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


def _only_on(node: str) -> dict[str, Any]:
    """By name as a field: the kube-scheduler then looks at that one node and at no other."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
