"""The command line and the environment that `/proc`, `ps` and `pkill -f` show for this process. Linux.

A forked rank shows the command and the variables of its program, as if it had been started with them. Processes of ours
do not show "python": scripts that begin with `pkill -f python` mean what an earlier run left behind.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

_PR_SET_MM: Final = 35
_PR_SET_MM_MAP: Final = 14
_FIELDS: Final = (26, 27, 45, 46, 47)
"""Fields of /proc/self/stat, numbered from 1: the bounds of code and data, and the start of the heap."""
_START_OF_STACK: Final = 28
_NAME_BYTES: Final = 15

_shown: list[Any] = []
"""The memory that the kernel shows. It must live as long as the process."""


def show_as_program(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Show this process as if it had been started with this command and these variables."""
    _set_areas(argv, b"".join(os.fsencode(f"{key}={value}") + b"\0" for key, value in env.items()))


def show_as_ours(name: str) -> None:
    """Show this process as one of Cotenant's, with the arguments that it was started with."""
    name_process(name)
    with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:
        _set_areas(["cotenant", *sys.orig_argv[1:]], file.read())


def name_process(name: str) -> None:
    """Set the short name, which ps and pkill use unless they are asked for the command line."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(name[:_NAME_BYTES])


def _set_areas(argv: Sequence[str], variables: bytes) -> None:
    """Let the kernel show these. Kernels without CONFIG_CHECKPOINT_RESTORE, and gVisor, keep showing the old ones."""
    arguments = b"".join(os.fsencode(part) + b"\0" for part in argv)
    import ctypes

    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()  # from the third on
    numbers = [int(fields[field - 3]) for field in (*_FIELDS, _START_OF_STACK)]
    memory = ctypes.create_string_buffer(arguments + variables)
    begin = ctypes.addressof(memory)
    middle, end = begin + len(arguments), begin + len(arguments) + len(variables)
    areas = struct.pack("=11QQIi", *numbers[:5], libc.sbrk(0), numbers[5], begin, middle, middle, end, 0, 0, -1)
    passed = ctypes.create_string_buffer(areas, len(areas))
    where, size = ctypes.c_void_p(ctypes.addressof(passed)), ctypes.c_ulong(len(areas))
    if libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, where, size, ctypes.c_ulong(0)) == 0:
        _shown.append(memory)
