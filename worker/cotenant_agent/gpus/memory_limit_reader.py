"""Reads memory limits of cgroups from the driver: `nvmlDeviceGetMemoryLimits_v1`, new in driver r615.

Bound here by ctypes, because nvidia-ml-py before 13.615 does not have it. Reading needs no privilege. The structure
follows the header of CUDA 13.4. The library is the one that nvidia-ml-py has opened, so its handles fit.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from cotenant_agent.gpus.readings import MIB, LimitReading

FUNCTION: Final = "nvmlDeviceGetMemoryLimits_v1"
LIBRARY: Final = "libnvidia-ml.so.1"
UNLIMITED: Final = 2**64 - 1
SUCCESS: Final = 0
WITHOUT_LIMIT: Final = frozenset({3, 6})
"""NOT_SUPPORTED and NOT_FOUND. Without `dmem`, the driver answers the first if no limit was set."""


class MemoryLimitsV1(ctypes.Structure):
    """The structure of that call; amounts in bytes."""

    _fields_ = (
        ("nameSpace", ctypes.c_char_p),
        ("softLimit", ctypes.c_ulonglong),
        ("hardLimit", ctypes.c_ulonglong),
        ("currentUsed", ctypes.c_ulonglong),
    )


class MemoryLimitReader:
    def __init__(self) -> None:
        try:
            self._call: Any = getattr(ctypes.CDLL(LIBRARY), FUNCTION, None)
        except OSError:
            self._call = None
        if self._call is not None:
            self._call.argtypes = [ctypes.c_void_p, ctypes.POINTER(MemoryLimitsV1)]

    @property
    def supported(self) -> bool:
        """True if the driver's library has the function."""
        return self._call is not None

    def read(self, handle: Any, cgroup: str) -> LimitReading | None:
        """The limit of this cgroup, a path below `/sys/fs/cgroup` as this process sees it; None if it cannot be
        read.
        """
        if self._call is None:
            return None
        found = MemoryLimitsV1(nameSpace=cgroup.encode())
        code = self._call(handle, ctypes.byref(found))
        if code in WITHOUT_LIMIT:
            return LimitReading()
        if code != SUCCESS:
            return None
        if found.hardLimit == UNLIMITED:
            return LimitReading(used_mib=found.currentUsed // MIB)
        return LimitReading(hard_mib=found.hardLimit // MIB, used_mib=found.currentUsed // MIB)
