"""Whole devices that pods of others hold, in the form of the core: one job of no queue for each node. Pure.

The kubelet chooses which device a container gets, so the ledger only knows how many are left: the devices offered, less
those that any pods have requested. As many devices as are missing are marked as taken. The last ones without a job of
Cotenant are marked first, because jobs get the first ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from cotenant.controller.cluster.foreign.foreign_holder import foreign_holder
from cotenant.core.model.objects import WHOLE, Gpu, GpuRequest, GrantedGpu, Job, JobKey, Node

SUFFIX: Final = "#devices"
"""End of the keys that stand for such devices. No job's name can contain it."""


def devices_key(node: str) -> JobKey:
    return f"{node}{SUFFIX}"


def is_devices(key: JobKey) -> bool:
    return key.endswith(SUFFIX)


def devices_holder(node: Node, requested: Mapping[str, int], held: Collection[str]) -> Job | None:
    """The job that stands for pods of others; None if they hold nothing.

    `requested` maps an extended resource to how many others have requested. `held` are the UUIDs that jobs of Cotenant
    hold.
    """
    listed = sorted((gpu for gpu in node.gpus if gpu.missing_since is None), key=lambda gpu: (gpu.index, gpu.uuid))
    taken = [
        gpu
        for resource in sorted({gpu.resource for gpu in listed if gpu.resource})
        for gpu in _taken([one for one in listed if one.resource == resource], requested.get(resource, 0), held)
    ]
    if not taken or node.deleted:
        return None
    grants = tuple(GrantedGpu(uuid=gpu.uuid, memory_mib=gpu.memory_mib, compute_milli=WHOLE) for gpu in taken)
    key = devices_key(node.name)
    return foreign_holder(key, key, GpuRequest(count=len(grants)), ((node.name, grants),))


def _taken(gpus: list[Gpu], requested: int, held: Collection[str]) -> list[Gpu]:
    """Devices of one resource that others hold.

    If fewer devices are offered than exist, and jobs hold some that broke, the difference counts as taken by others:
    nobody knows which device broke, and the kube-scheduler has one less to give.
    """
    offered, ours = sum(gpu.healthy for gpu in gpus), sum(gpu.uuid in held for gpu in gpus)
    free = [gpu for gpu in gpus if gpu.healthy and gpu.uuid not in held]
    return free[max(0, offered - ours - requested) :]
