"""A TrainingJob's spec and its committed placement → the `Attempt` that pods are built from. Pure.

The only place that knows both the API's models and the builders' values.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cotenant import contract, names
from cotenant.api.resources.job_spec.checkpoints import Checkpoint
from cotenant.api.resources.job_spec.data import volume_of
from cotenant.api.resources.job_spec.env_vars import EnvVar
from cotenant.api.resources.job_spec.evaluators import Evaluator, EvaluatorResources
from cotenant.api.resources.job_spec.parameter_servers import ParameterServer, ServerResources
from cotenant.api.resources.job_spec.runtime import Resources, Runtime
from cotenant.api.resources.job_spec.volumes import ClaimSource, Code, Volume
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.scalars.networks import listed
from cotenant.api.scalars.quantities import mib_up
from cotenant.controller.manifests.attempt import (
    Attempt,
    CpuPod,
    EvaluatorProgram,
    GpuFacts,
    HostAmounts,
    Program,
)
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import Placement

CHECKPOINT_VOLUME = "cotenant-checkpoints"
DATA_VOLUME = "cotenant-data"


def attempt_of(
    job: TrainingJob,
    status: TrainingJobStatus,
    placement: Placement,
    gpus: Mapping[str, GpuFacts],
    settings: Settings,
    *,
    of_namespace: Mapping[str, str] = MappingProxyType({}),
) -> Attempt:
    """The attempt of this placement. `of_namespace`: the labels of the job's namespace."""
    spec = job.spec
    return Attempt(
        namespace=job.metadata.namespace or "default",
        job=job.metadata.name or "",
        uid=job.metadata.uid,
        queue=spec.queue,
        number=status.attempts,
        placement=placement,
        program=program_of(job, settings),
        each=_amounts(spec.resources),
        chief=_amounts(spec.chief_resources) if spec.chief else None,
        grace_s=min(spec.grace_period, settings.max_grace_period_s),
        gpus=gpus,
        namespace_labels={key: of_namespace[key] for key in listed(settings.namespace_labels) if key in of_namespace},
        servers=(status.placement.servers or 0) if status.placement else 0,
    )


def _amounts(resources: Resources) -> HostAmounts:
    return HostAmounts(
        cpu_milli=resources.cpu,
        memory_mib=mib_up(resources.memory),
        scratch_mib=mib_up(resources.scratch) if resources.scratch is not None else 0,
    )


def program_of(job: TrainingJob, settings: Settings) -> Program:
    runtime, checkpoint = job.spec.runtime, job.spec.checkpoint
    volumes = [_volume(volume) for volume in runtime.volumes]
    mounts = [_mount(volume) for volume in runtime.volumes]
    if checkpoint is not None and checkpoint.volume is not None:
        claim = checkpoint.volume.persistent_volume_claim
        volumes.append({"name": CHECKPOINT_VOLUME, **_claim(claim)})
        mounts.append({"name": CHECKPOINT_VOLUME, "mountPath": names.CHECKPOINT_PATH, **_sub_path(claim)})
    for index, one in enumerate(job.spec.data):
        if volume_of(one.to, runtime.volumes) is None:
            volumes.append({"name": f"{DATA_VOLUME}-{index}", "emptyDir": {}})
            mounts.append({"name": f"{DATA_VOLUME}-{index}", "mountPath": one.to})
    return Program(
        image=runtime.image or settings.worker_image,
        image_pull_secrets=tuple(secret.name for secret in runtime.image_pull_secrets),
        mode=runtime.mode,
        command=(*(runtime.command or ()), *(runtime.args or ())),
        entrypoint=runtime.entrypoint or "",
        framework=runtime.framework.value if runtime.framework else "",
        strategy=runtime.strategy.value,
        collective=runtime.collective.value,
        precision=runtime.precision.value,
        checkpoint=_checkpoint(checkpoint, job.metadata.name or ""),
        data=tuple(contract.DataSource(one.source, one.to, one.size_limit or 0) for one in job.spec.data),
        env=tuple(_env(entry) for entry in runtime.env),
        volumes=tuple(volumes),
        mounts=tuple(mounts),
        code=_code(runtime.code),
        workers_min=job.spec.min_workers or 0,
        servers=_cpu_pod(runtime.servers, runtime.servers.resources) if runtime.servers else None,
        evaluator=_evaluator(job.spec.evaluator, runtime),
        platform=_platform(runtime, job.spec.retries),
    )


def _cpu_pod(of: ParameterServer | Evaluator, asked: ServerResources | EvaluatorResources) -> CpuPod:
    return CpuPod(
        cpu_milli=asked.cpu,
        memory_mib=mib_up(asked.memory),
        node_selector=dict(of.node_selector),
        tolerate_gpu_taints=of.tolerate_gpu_taints,
    )


def _evaluator(evaluator: Evaluator | None, runtime: Runtime) -> EvaluatorProgram | None:
    """Its own program, or the job's."""
    if evaluator is None:
        return None
    pod = _cpu_pod(evaluator, evaluator.asked)
    if evaluator.command is not None:
        return EvaluatorProgram(mode="command", command=evaluator.command, pod=pod)
    if evaluator.entrypoint is not None:
        return EvaluatorProgram(mode="entrypoint", entrypoint=evaluator.entrypoint, pod=pod)
    command, entrypoint = (*(runtime.command or ()), *(runtime.args or ())), runtime.entrypoint or ""
    return EvaluatorProgram(mode=runtime.mode, command=command, entrypoint=entrypoint, pod=pod)


def _checkpoint(checkpoint: Checkpoint | None, job: str) -> contract.CheckpointSpec | None:
    if checkpoint is None:
        return None
    path = checkpoint.path or job
    if checkpoint.volume is not None:
        path = f"{names.CHECKPOINT_PATH}/{path}"
    return contract.CheckpointSpec(path=path, interval_s=checkpoint.interval or 0)


def _platform(runtime: Runtime, retries: int) -> dict[str, Any]:
    """Options of the launcher that have no field of their own in the contract, as far as they are chosen."""
    options = {
        "parameterServer": {"update": runtime.servers.update.value} if runtime.servers else None,
        "gpuVisibility": runtime.gpu_visibility.value if runtime.gpu_visibility else None,
        "gpuProcesses": runtime.gpu_processes if runtime.gpu_processes > 1 else None,
        "hangTimeoutSeconds": runtime.hang_timeout,
        "stallTimeoutSeconds": runtime.stall_timeout,
        "tracking": runtime.tracking.to_document() if runtime.tracking else None,
        "retries": retries or None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _env(entry: EnvVar) -> dict[str, Any]:
    if entry.value_from is not None:
        return {"name": entry.name, "valueFrom": entry.value_from.to_document()}
    return {"name": entry.name, "value": entry.value or ""}


def _volume(volume: Volume) -> dict[str, Any]:
    if volume.persistent_volume_claim is not None:
        source = _claim(volume.persistent_volume_claim, read_only=volume.read_only)
    elif volume.config_map is not None:
        source = {"configMap": volume.config_map.to_document()}
    elif volume.secret is not None:
        source = {"secret": volume.secret.to_document()}
    else:
        limit = volume.empty_dir.size_limit if volume.empty_dir else None
        source = {"emptyDir": {} if limit is None else {"sizeLimit": str(limit)}}
    return {"name": volume.name, **source}


def _mount(volume: Volume) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": volume.name, "mountPath": volume.mount_path}
    if volume.read_only:
        mount["readOnly"] = True
    if volume.persistent_volume_claim is not None:
        mount |= _sub_path(volume.persistent_volume_claim)
    return mount


def _claim(claim: ClaimSource, *, read_only: bool = False) -> dict[str, Any]:
    """`read_only`: the kubelet mounts it so, and changes the group of no file of it."""
    source: dict[str, Any] = {"claimName": claim.claim_name} | ({"readOnly": True} if read_only else {})
    return {"persistentVolumeClaim": source}


def _sub_path(claim: ClaimSource) -> dict[str, Any]:
    return {"subPath": claim.sub_path} if claim.sub_path else {}


def _code(code: Code | None) -> dict[str, Any] | None:
    """Volume source of the code, and the folder of it that is mounted; None without code."""
    if code is None:
        return None
    if code.config_map is not None:
        return {"source": {"configMap": code.config_map.to_document()}}
    if code.persistent_volume_claim is not None:
        claim = code.persistent_volume_claim
        return {"source": _claim(claim)} | _sub_path(claim)
    return None
