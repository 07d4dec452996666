"""The CDI specification of one prepared claim: what a container with the claim gets. Pure.

The container runtime applies it after the pod's own environment, so a pod cannot name other GPUs. A claim is one CDI
device, because the variables that name the GPUs cannot be merged from several devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from cotenant.names import DRA_DRIVER, ENV_MPS_PIPES
from cotenant_agent.dra.prepared_claims import PreparedClaim
from cotenant_agent.gpus.readings import Gpu

VERSION: Final = "0.5.0"
KIND: Final = f"{DRA_DRIVER}/claim"
PIPES: Final = "/run/cotenant-mps"
"""Folder of the pipes in the container."""
VISIBLE: Final = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
NO_PIPES: Final[Mapping[str, str]] = MappingProxyType({})
SHARED_NODES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Device nodes of the driver that every program on a GPU opens."""


def cdi_device(claim_uid: str) -> str:
    """The qualified name that the kubelet passes to the container runtime."""
    return f"{KIND}={claim_uid}"


def spec(claim: PreparedClaim, gpus: Mapping[str, Gpu], pipes: Mapping[str, str] = NO_PIPES, /) -> dict[str, Any]:
    """`gpus` by UUID. `pipes` maps a UUID to the folder of the claim's namespace on the MPS daemon of that GPU."""
    uuids = list(dict.fromkeys(one.uuid for one in claim.devices))
    variables = dict.fromkeys(VISIBLE, ",".join(uuids)) | _pipe_variables(list(pipes))
    edits: dict[str, Any] = {"env": [f"{key}={value}" for key, value in variables.items()]}
    if nodes := device_nodes(gpus[uuid] for uuid in uuids if uuid in gpus):
        edits["deviceNodes"] = [{"path": path} for path in nodes]
    if pipes:
        edits["mounts"] = [
            # A program may connect to a socket that it cannot remove or replace.
            {"hostPath": folder, "containerPath": f"{PIPES}/{uuid}", "options": ["ro", "nosuid", "nodev", "bind"]}
            for uuid, folder in pipes.items()
        ]
    return {"cdiVersion": VERSION, "kind": KIND, "devices": [{"name": claim.uid, "containerEdits": edits}]}


def device_nodes(gpus: Iterable[Gpu]) -> list[str]:
    """Device nodes of a GPU. Simulated GPUs have none. For MIG instances the NVIDIA runtime adds its own, which open
    only a part of the GPU.
    """
    minors = [gpu.minor for gpu in gpus if gpu.minor is not None and not gpu.parent]
    return [f"/dev/{name}" for name in (*SHARED_NODES, *(f"nvidia{minor}" for minor in minors))] if minors else []


def _pipe_variables(uuids: list[str]) -> dict[str, str]:
    """Variables by which programs find their MPS namespaces.

    A process is a client of one daemon. With shares of several GPUs, a program has to choose one folder itself: the
    folder named here has no daemon.
    """
    if not uuids:
        return {}
    chosen = f"{PIPES}/{uuids[0]}" if len(uuids) == 1 else PIPES
    return {ENV_MPS_PIPES: PIPES, "CUDA_MPS_PIPE_DIRECTORY": chosen}
