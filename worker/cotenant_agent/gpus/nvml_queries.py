"""Single questions to NVML about one GPU. A value that cannot be read is None; a lost GPU raises an error.

An old driver lacks functions, a product lacks features, a container lacks rights. Handles are those of `pynvml`.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pynvml

from cotenant_agent.gpus.readings import MIB, GpuProcess, HealthSigns

T = TypeVar("T")
THROTTLES: Final = 0x40 | 0x20 | 0x80
"""Hardware thermal, software thermal, power brake."""
UNAVAILABLE: Final = (
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_InvalidArgument,
    pynvml.NVMLLibraryMismatchError,  # not an NVMLError: an unversioned call met an older library
)
SM_SAMPLE_S: Final = 10.0
"""The driver samples processes about every second. An older sample says nothing about now."""


@dataclass(frozen=True, slots=True)
class GpuLostError(Exception):
    """The GPU cannot be reached, or needs a reset first."""

    reset_required: bool

    def __str__(self) -> str:
        return "it needs a reset" if self.reset_required else "it is lost"


def query(call: Callable[..., T], *args: Any) -> T | None:
    """The result of `call`; None if this driver or product has none. Raises GpuLostError, or NVMLError for an
    unforeseen error.
    """
    try:
        return call(*args)
    except UNAVAILABLE:
        return None
    except pynvml.NVMLError_GpuIsLost as error:
        raise GpuLostError(reset_required=False) from error
    except pynvml.NVMLError as error:
        if getattr(error, "value", None) == pynvml.NVML_ERROR_RESET_REQUIRED:
            raise GpuLostError(reset_required=True) from error
        raise


def decoded(value: str | bytes | None) -> str:
    """Text of NVML. Old bindings return bytes."""
    return value.decode() if isinstance(value, bytes) else (value or "")


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of a device, in bytes."""

    total: int
    used: int
    reserved: int
    """What the driver keeps for itself; 0 if it does not show it."""

    @property
    def usable_mib(self) -> int:
        """MiB that programs can use. Shares are parts of this."""
        return (self.total - self.reserved) // MIB


def memory_of(handle: Any) -> DeviceMemory | None:
    """Memory by version 2 of the call, which shows what the driver reserves and keeps it out of `used`."""
    memory = query(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    if memory is not None:
        return DeviceMemory(int(memory.total), int(memory.used), int(memory.reserved))
    memory = query(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return DeviceMemory(int(memory.total), int(memory.used), 0) if memory is not None else None


def linked(near: Any, far: Any) -> bool:
    """True if they reach each other over NVLink, directly or through a switch."""
    try:
        status = query(pynvml.nvmlDeviceGetP2PStatus, near, far, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    except (GpuLostError, pynvml.NVMLError):
        return False
    return bool(status == pynvml.NVML_P2P_STATUS_OK) if status is not None else False


def processes_of(handle: Any) -> tuple[GpuProcess, ...]:
    """Compute, MPS and graphics processes together. A process in several lists counts once, with its largest figure."""
    found: dict[int, int | None] = {}
    for call in (
        pynvml.nvmlDeviceGetComputeRunningProcesses,
        pynvml.nvmlDeviceGetMPSComputeRunningProcesses,
        pynvml.nvmlDeviceGetGraphicsRunningProcesses,
    ):
        for process in query(call, handle) or ():
            used = process.usedGpuMemory
            mib = None if used is None else -(-int(used) // MIB)
            known = found.get(process.pid)
            found[process.pid] = mib if known is None else max(known, mib or 0)
    busy = sm_percent_of(handle) if found else {}
    return tuple(GpuProcess(pid, mib, busy.get(pid)) for pid, mib in sorted(found.items()))


def sm_percent_of(handle: Any) -> dict[int, int]:
    """PID → newest sample of the last seconds. The driver keeps samples for some processes only, and not for MIG."""
    since_us = int((time.time() - SM_SAMPLE_S) * 1e6)
    try:
        samples = query(pynvml.nvmlDeviceGetProcessUtilization, handle, since_us) or ()
    except pynvml.NVMLError as error:
        if getattr(error, "value", None) in {pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND}:
            return {}  # no sample since: the binding raises for an empty answer too
        raise
    newest = sorted(samples, key=lambda one: one.timeStamp)
    return {int(one.pid): min(100, int(one.smUtil)) for one in newest}


def is_exclusive(handle: Any) -> bool | None:
    """True if the GPU accepts one process only; None if that is not shown."""
    mode = query(pynvml.nvmlDeviceGetComputeMode, handle)
    return None if mode is None else bool(mode == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)


def signs_of(handle: Any) -> HealthSigns:
    rows = query(pynvml.nvmlDeviceGetRemappedRows, handle)
    pages = query(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle) if rows is None else None
    ecc = query(
        pynvml.nvmlDeviceGetTotalEccErrors,
        handle,
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    )
    clocks = query(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    return HealthSigns(
        recovery_action=recovery_action_of(handle),
        remap_pending=bool(rows and rows[2]) or pages == pynvml.NVML_FEATURE_ENABLED,
        remap_failed=bool(rows and rows[3]),
        ecc_uncorrected=ecc,
        fabric_up=is_fabric_up(handle),
        prohibited=query(pynvml.nvmlDeviceGetComputeMode, handle) == pynvml.NVML_COMPUTEMODE_PROHIBITED,
        throttled=bool(clocks and clocks & THROTTLES),
    )


def is_fabric_up(handle: Any) -> bool | None:
    """False while the fabric of NVSwitches is not set up; None for a GPU without one."""
    info = pynvml.c_nvmlGpuFabricInfoV_t()
    answered = query(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info))
    if answered is None or info.state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
        return None
    return bool(info.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED and info.status == pynvml.NVML_SUCCESS)


def recovery_action_of(handle: Any) -> int | None:
    values = query(pynvml.nvmlDeviceGetFieldValues, handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return int(values[0].value.uiVal)
