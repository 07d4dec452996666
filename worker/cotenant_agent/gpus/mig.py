"""MIG instances: parts of a GPU that the hardware separates, listed like smaller GPUs.

An administrator makes them, or a program such as NVIDIA's MIG manager. The class of an instance is that of its GPU with
the profile: `H100-1g.10gb`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pynvml

from cotenant_agent.gpus.nvml_queries import decoded, query

PROFILE: Final = re.compile(r"\bMIG (\S+)$")
MIB_PER_GB: Final = 1024


def is_enabled(handle: Any) -> bool:
    mode = query(pynvml.nvmlDeviceGetMigMode, handle)
    return mode is not None and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE


def instance_handles(handle: Any) -> Iterator[Any]:
    """Handles of the instances of this GPU, in the driver's order; none if it has no MIG."""
    for slot in range(query(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        try:
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
        except pynvml.NVMLError_NotFound:
            continue


def uuids_of(uuid: str, handle: Any) -> set[str]:
    """UUIDs of what can be handed out of this GPU: of its instances, or its own if it has no MIG."""
    if not is_enabled(handle):
        return {uuid}
    return {decoded(query(pynvml.nvmlDeviceGetUUID, instance)) for instance in instance_handles(handle)}


def profile_of(product: str, memory_mib: int, slices: int | None) -> str:
    """`NVIDIA H100 80GB HBM3 MIG 1g.10gb` → `1g.10gb`. If the driver does not name it: from slices and memory."""
    found = PROFILE.search(product)
    if found is not None:
        return re.sub(r"[^A-Za-z0-9.]+", ".", found[1]).strip(".")  # 1g.10gb+me: a class is a label's value
    return f"{slices or 1}g.{round(memory_mib / MIB_PER_GB)}gb"


def slices_of(instance: Any) -> int | None:
    try:
        return int(pynvml.nvmlDeviceGetAttributes(instance).gpuInstanceSliceCount)
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
        return None
