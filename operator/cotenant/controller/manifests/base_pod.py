"""Pure builder of what all pods of an attempt share: metadata, restricted Pod Security profile, launcher, contract.

Names are deterministic and all is owned by the TrainingJob, so creating twice is harmless and deleting the job deletes
it all. Pods carry no service-account token.
"""

from __future__ import annotations

from typing import Any

from cotenant import contract, names
from cotenant.api.scalars.networks import listed
from cotenant.controller.client.kube import Document
from cotenant.controller.manifests.attempt import Attempt
from cotenant.controller.manifests.cluster_domain import USUAL
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import WHOLE, GrantedGpu

_LAUNCHER_CONTAINER: dict[str, Any] = {
    "name": names.CONTAINER,
    "command": ["python", "-P", "-m", "cotenant_worker"],
    "ports": [{"name": "progress", "containerPort": names.PROGRESS_PORT}],
    "readinessProbe": {
        "httpGet": {"path": "/healthz", "port": names.PROGRESS_PORT},
        "initialDelaySeconds": 1,  # the launcher listens by then; probes tick every 2 s: no pod is ready later for it
        "periodSeconds": 2,
        "timeoutSeconds": 2,
        "failureThreshold": 3,
    },
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},  # Kyverno's policies look for it here, and not in the pod
    },
    "terminationMessagePath": names.TERMINATION_PATH,
    "terminationMessagePolicy": "File",
}
"""Of every pod: our launcher is its first process."""


def base_pod(attempt: Attempt, node_rank: int, settings: Settings) -> Document:
    """Build what all pods of an attempt have in common; volumes, resources and affinity are still to be added."""
    env, metadata = launcher_env(attempt, node_rank, settings), attempt.metadata | {"name": attempt.pod_name(node_rank)}
    labels, metadata["annotations"] = settings.labels_and_annotations
    metadata["labels"] = (
        labels
        | dict(attempt.namespace_labels)
        | metadata["labels"]
        | {
            names.LABEL_ATTEMPT: str(attempt.number),
            names.LABEL_NODE_RANK: str(node_rank),
            names.LABEL_ROLE: attempt.role(node_rank).value,
            names.LABEL_QUEUE: attempt.queue,
        }
    )
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "hostname": attempt.pod_name(node_rank),
        "subdomain": attempt.job,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": attempt.grace_s,
        "securityContext": {
            "runAsNonRoot": True,
            **_user(settings),
            "fsGroupChangePolicy": "OnRootMismatch",  # not every file of a volume at every start
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_LAUNCHER_CONTAINER | {"image": attempt.program.image, "env": env}],
    }
    if settings.pod_priority_class:
        spec["priorityClassName"] = settings.pod_priority_class
    if pull_secrets := _pull_secrets(attempt, settings):
        spec["imagePullSecrets"] = [{"name": name} for name in pull_secrets]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _user(settings: Settings) -> dict[str, int]:
    """None where the platform gives each namespace a range of users, as OpenShift does, and refuses all others."""
    if not settings.run_as_user:
        return {}
    user = int(settings.run_as_user)
    return {"runAsUser": user, "runAsGroup": user, "fsGroup": user}


def _pull_secrets(attempt: Attempt, settings: Settings) -> list[str]:
    """The job's own first. A pod that names any gets none of its ServiceAccount, so without the administrator's and
    the job's it names none.
    """
    return list(dict.fromkeys([*attempt.program.image_pull_secrets, *listed(settings.image_pull_secrets)]))


def launcher_env(attempt: Attempt, node_rank: int, settings: Settings) -> list[dict[str, Any]]:
    """Variables that every launcher reads: its contract, the attempt's token, its own address. The evaluator joins no
    Ray cluster and no server, and gets no token.
    """
    variables = contract_of(attempt, node_rank, settings).to_environment()
    return [
        *({"name": name, "value": part} for name, part in variables.items()),
        {"name": "RAY_AUTH_MODE", "value": "token"},
        *(_token(attempt) if attempt.role(node_rank) is not contract.Role.EVALUATOR else ()),
        {"name": names.ENV_POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]


def _token(attempt: Attempt) -> list[dict[str, Any]]:
    if not attempt.needs_token:
        return []
    key = {"name": attempt.secret_name, "key": names.SECRET_TOKEN_KEY}
    return [{"name": names.ENV_RAY_TOKEN, "valueFrom": {"secretKeyRef": key}}]


def contract_of(attempt: Attempt, node_rank: int, settings: Settings) -> contract.Contract:
    """Contract of one pod: all pods of the attempt with their ranks and GPUs, and which of them this one is."""
    program = attempt.program
    domain = f"{attempt.job}.{attempt.namespace}.svc.{settings.cluster_domain or USUAL}"
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
        data=program.data,
        workers_min=program.workers_min,
        servers=tuple(
            f"{attempt.pod_name(len(attempt.placement.nodes) + index)}.{domain}" for index in range(attempt.servers)
        ),
        evaluator=_evaluator(attempt, domain),
        platform={
            **program.platform,
            "cpuMilli": attempt.each.cpu_milli,
            **({"chief": True, "chiefCpuMilli": attempt.chief.cpu_milli} if attempt.chief else {}),
            **_asked_scratch(attempt, node_rank),
            **({"scratchMib": scratch} if (scratch := scratch_mib(attempt, node_rank, settings)) else {}),
        },
    )


def _asked_scratch(attempt: Attempt, node_rank: int) -> dict[str, int]:
    """Scratch space in MiB that the placement of a pod with ranks covers. The pod may request more: see
    `quota_amounts`.
    """
    if attempt.role(node_rank) is not contract.Role.WORKER:
        return {}
    return {"askedScratchMib": attempt.amounts_on(node_rank).scratch_mib}


def _evaluator(attempt: Attempt, domain: str) -> contract.EvaluatorSpec | None:
    program = attempt.program.evaluator
    if program is None:
        return None
    return contract.EvaluatorSpec(
        host=f"{attempt.pod_name(attempt.evaluator_rank)}.{domain}",
        mode=program.mode,
        command=program.command,
        entrypoint=program.entrypoint,
        cpu_milli=program.pod.cpu_milli,
    )


def scratch_mib(attempt: Attempt, node_rank: int, settings: Settings) -> int:
    """Size of /tmp in MiB, for all ranks of a pod together; 0 where nothing limits it."""
    asked = attempt.amounts_on(node_rank).scratch_mib if node_rank < len(attempt.placement.nodes) else 0
    return asked or settings.scratch_mib


def _grant(attempt: Attempt, gpu: GrantedGpu) -> contract.GpuGrant:
    facts = attempt.gpus.get(gpu.uuid)
    return contract.GpuGrant(
        uuid=gpu.uuid,
        memory_mib=gpu.memory_mib,
        compute_milli=gpu.compute_milli,
        whole=gpu.compute_milli == WHOLE and facts is not None and gpu.memory_mib >= facts.memory_mib,
        simulated=facts is not None and facts.simulated,
        resource="" if facts is None else facts.resource,
    )
