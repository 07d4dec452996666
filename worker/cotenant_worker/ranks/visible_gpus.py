"""GPUs that CUDA shows to a process of this container, with their memory: `python -m … visible_gpus UUID…` prints JSON.

It calls the driver library by ctypes, so it works in every image that has a GPU. A context is made on each GPU for a
moment, because only then does the driver report how much memory a limited container has.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import uuid as uuids
from typing import Any


class DriverError(RuntimeError):
    """An error of the CUDA driver library."""


def visible(cuda: Any) -> dict[str, int]:
    """UUID → total bytes, in CUDA's order."""
    _check(cuda, cuda.cuInit(0), "cuInit")
    count = ctypes.c_int()
    _check(cuda, cuda.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    found: dict[str, int] = {}
    for index in range(count.value):
        device = ctypes.c_int()
        _check(cuda, cuda.cuDeviceGet(ctypes.byref(device), index), "cuDeviceGet")
        raw = (ctypes.c_ubyte * 16)()
        _check(cuda, cuda.cuDeviceGetUuid_v2(ctypes.byref(raw), device), "cuDeviceGetUuid")
        context = ctypes.c_void_p()
        _check(cuda, cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
        _check(cuda, cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        _check(cuda, cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "cuMemGetInfo")
        cuda.cuDevicePrimaryCtxRelease_v2(device)
        found[f"GPU-{uuids.UUID(bytes=bytes(raw))}"] = total.value
    return found


def _check(cuda: Any, code: int, what: str) -> None:
    if code != 0:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(name))
        raise DriverError(f"{what}: {(name.value or str(code).encode()).decode()}")


def main() -> None:
    wanted = sys.argv[1:]
    if wanted:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(wanted)
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    try:
        seen = visible(ctypes.CDLL("libcuda.so.1"))
    except OSError as error:
        sys.exit(f"{error} (is the pod's runtimeClass the one of the NVIDIA runtime?)")
    except DriverError as error:
        sys.exit(str(error))
    # A MIG slice has its UUID without the prefix here: give each back under the name it was asked by.
    by_hex = {name.split("-", 1)[1]: total for name, total in seen.items()}
    named = {name: by_hex.get(name.split("-", 1)[-1]) for name in wanted} if wanted else seen
    print(json.dumps({name: total for name, total in named.items() if total is not None}))  # noqa: T201 - its answer


if __name__ == "__main__":
    main()
