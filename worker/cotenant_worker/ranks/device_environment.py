"""Variables that show a rank its devices, by their maker. Pure; part of `environment`.

CUDA GPUs are named by their UUIDs. Devices that the kubelet handed out have no names here. AMD's runtime numbers those
of the container from 0, in the order of the pod's ranks. The plugins of other makers show the devices to the container
themselves, and the ranks of a pod choose by LOCAL_RANK, as under torchrun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from cotenant import names
from cotenant.contract import Contract, GpuGrant, PodGrant

AMD: Final = "amd.com/gpu"
WITH_NCCL: Final = frozenset({"", AMD})
"""AMD's RCCL uses NCCL's name, in torch and in its variables."""
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
OWN: Final = "COTENANT_GPUS"
"""The same. A program may write numbers into the first, which would count the GPUs of the container."""
MPS_PIPE: Final = "CUDA_MPS_PIPE_DIRECTORY"


def resource_of(contract: Contract) -> str:
    """Resource of all devices of a job, which are of one kind; empty for CUDA GPUs, and without devices."""
    grants = (gpu for pod in contract.pods for rank in pod.ranks for gpu in rank.gpus)
    return next((gpu.resource for gpu in grants if gpu.resource), "")


def pod_uuids(pod: PodGrant) -> list[str]:
    """Every UUID of the pod once, in rank order."""
    return list(dict.fromkeys(gpu.uuid for rank in pod.ranks for gpu in rank.gpus))


def counts_in_pod(gpus: Sequence[GpuGrant]) -> bool:
    """True if a rank with these devices sees those of its whole pod, or none."""
    return all(gpu.simulated or gpu.resource not in WITH_NCCL for gpu in gpus)


def apart(contract: Contract, inherited: Mapping[str, str]) -> Contract:
    """The contract of a pod whose GPUs MPS serves. A process is a client of one daemon, so a rank sees only its own
    GPU.
    """
    if not inherited.get(names.ENV_MPS_PIPES):
        return contract
    return replace(contract, platform={**contract.platform, "gpuVisibility": "Rank"})


def compute_namespace(inherited: Mapping[str, str], gpus: Sequence[GpuGrant]) -> dict[str, str]:
    """Variable that makes a rank a client in the pod's MPS namespace on its GPU; none without MPS."""
    pipes = inherited.get(names.ENV_MPS_PIPES)
    return {MPS_PIPE: f"{pipes}/{gpus[0].uuid}"} if pipes and len(gpus) == 1 else {}


def visibility(pod: PodGrant, gpus: Sequence[GpuGrant]) -> dict[str, str]:
    """Variables that show a rank these devices of its pod, and no others."""
    resource = next((gpu.resource for gpu in gpus), "")
    if not resource:
        return dict.fromkeys((VISIBLE, OWN), ",".join(gpu.uuid for gpu in gpus))
    if resource != AMD:
        return {}
    order = pod_uuids(pod)
    return {"ROCR_VISIBLE_DEVICES": ",".join(str(order.index(gpu.uuid)) for gpu in gpus)}
