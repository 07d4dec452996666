"""Whole devices that pods of others hold, as the core counts them: one job of no queue for each node. Pure.

The kubelet chooses which device a container gets, so a device of the ledger stands for one of so many. How many are
left is what the kube-scheduler counts too: those that are offered, less what pods of ours and of others have requested.
As many as are not left are taken from those that nothing of ours holds, the last ones first: jobs get the first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from cotenant.controller.cluster.foreign.foreign_holder import foreign_holder
from cotenant.core.model.objects import WHOLE, Gpu, GpuRequest, GrantedGpu, Job, JobKey, Node

SUFFIX: Final = "#devices"
"""Of the core's keys of these: no job has it in its name."""


def devices_key(node: str) -> JobKey:
    return f"{node}{SUFFIX}"


def is_devices(key: JobKey) -> bool:
    return key.endswith(SUFFIX)


def devices_holder(node: Node, requested: Mapping[str, int], held: Collection[str]) -> Job | None:
    """Job that stands for pods of others; None where all that is not ours is free.

    `requested`: extended resource → number that pods of others have requested. `held`: UUIDs that jobs of ours hold.
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
    """Devices of one resource. One that is not offered any more and is held by ours counts against the others: which of
    them broke is not known, and the kube-scheduler has one less to give.
    """
    offered, ours = sum(gpu.healthy for gpu in gpus), sum(gpu.uuid in held for gpu in gpus)
    free = [gpu for gpu in gpus if gpu.healthy and gpu.uuid not in held]
    return free[max(0, offered - ours - requested) :]
