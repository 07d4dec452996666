"""The profile `RuntimeDefault`: a seccomp-bpf filter that refuses system calls a container should not make.

The calls are those that Docker's and containerd's default profiles keep from a container without the capability named
beside them; they fail with EPERM. Unlike theirs it is a list of what is refused, not of what is allowed. Programs of
another architecture than the machine's (32-bit ones too) are refused, because their call numbers differ.
"""

import ctypes
import platform
import struct
from collections.abc import Iterable
from typing import Final

from cotenant_local.runtime.inside import syscalls
from cotenant_local.runtime.inside.reports import SetupError

SYS_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_BOOT, SYS_PACCT = 21, 16, 17, 22, 20
SYS_TIME, SYS_NICE, SYSLOG, READ_SEARCH, NEVER = 25, 23, 34, 2, -1

# name: (x86_64, aarch64, the capability that allows it)
CALLS: dict[str, tuple[int | None, int | None, int]] = {
    "acct": (163, 89, SYS_PACCT),
    "add_key": (248, 217, NEVER),
    "bpf": (321, 280, SYS_ADMIN),
    "clock_settime": (227, 112, SYS_TIME),
    "create_module": (174, None, SYS_MODULE),
    "delete_module": (176, 106, SYS_MODULE),
    "fanotify_init": (300, 262, SYS_ADMIN),
    "finit_module": (313, 273, SYS_MODULE),
    "fsconfig": (431, 431, SYS_ADMIN),
    "fsmount": (432, 432, SYS_ADMIN),
    "fsopen": (430, 430, SYS_ADMIN),
    "fspick": (433, 433, SYS_ADMIN),
    "init_module": (175, 105, SYS_MODULE),
    "io_uring_enter": (426, 426, NEVER),
    "io_uring_register": (427, 427, NEVER),
    "io_uring_setup": (425, 425, NEVER),
    "ioperm": (173, None, SYS_RAWIO),
    "iopl": (172, None, SYS_RAWIO),
    "kcmp": (312, 272, SYS_ADMIN),
    "kexec_file_load": (320, 294, SYS_BOOT),
    "kexec_load": (246, 104, SYS_BOOT),
    "keyctl": (250, 219, NEVER),
    "lookup_dcookie": (212, 18, SYS_ADMIN),
    "mount": (165, 40, SYS_ADMIN),
    "mount_setattr": (442, 442, SYS_ADMIN),
    "move_mount": (429, 429, SYS_ADMIN),
    "move_pages": (279, 239, SYS_NICE),
    "open_by_handle_at": (304, 265, READ_SEARCH),
    "open_tree": (428, 428, SYS_ADMIN),
    "perf_event_open": (298, 241, SYS_ADMIN),
    "pivot_root": (155, 41, SYS_ADMIN),
    "quotactl": (179, 60, SYS_ADMIN),
    "quotactl_fd": (443, 443, SYS_ADMIN),
    "reboot": (169, 142, SYS_BOOT),
    "request_key": (249, 218, NEVER),
    "setdomainname": (171, 162, SYS_ADMIN),
    "sethostname": (170, 161, SYS_ADMIN),
    "setns": (308, 268, SYS_ADMIN),
    "settimeofday": (164, 170, SYS_TIME),
    "swapoff": (168, 225, SYS_ADMIN),
    "swapon": (167, 224, SYS_ADMIN),
    "sysfs": (139, None, NEVER),
    "syslog": (103, 116, SYSLOG),
    "umount2": (166, 39, SYS_ADMIN),
    "unshare": (272, 97, SYS_ADMIN),
    "uselib": (134, None, NEVER),
    "userfaultfd": (323, 282, NEVER),
    "ustat": (136, None, NEVER),
    "vhangup": (153, 58, SYS_ADMIN),
}
# machine: (audit architecture, column of CALLS, clone)
MACHINES = {"x86_64": (0xC000003E, 0, 56), "aarch64": (0xC00000B7, 1, 220)}
CLONE3: Final = 435
NAMESPACE_FLAGS = 0x7E020000 | 0x80
X32_BIT: Final = 0x40000000

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EPERM, ENOSYS = 1, 38
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
Line = tuple[int, int, int, int]
"""Operation, jumps on yes and no, operand."""


def program(machine: str, capabilities: list[int]) -> bytes:
    """The filter as the kernel reads it: 8 bytes per instruction."""
    if machine not in MACHINES:
        raise SetupError(f"seccomp profile RuntimeDefault is not provided on {machine}; use Unconfined")
    audit, column, clone = MACHINES[machine]
    refuse = (RETURN, 0, 0, ERRNO | EPERM)
    lines = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, audit), refuse, (LOAD, 0, 0, NUMBER)]
    if machine == "x86_64":
        lines += [(AT_LEAST, 0, 1, X32_BIT), refuse]
    for row in CALLS.values():
        number = row[column]
        if number is not None and row[2] not in capabilities:
            lines += [(EQUAL, 0, 1, number), refuse]
    if SYS_ADMIN not in capabilities:
        # clone3 passes its flags in memory, which a filter cannot read: without it, C libraries use clone.
        lines += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ERRNO | ENOSYS)]
        lines += [(EQUAL, 0, 3, clone), (LOAD, 0, 0, FIRST_ARGUMENT), (ANY_BIT, 0, 1, NAMESPACE_FLAGS), refuse]
    lines.append((RETURN, 0, 0, ALLOW))
    return assemble(lines)


def assemble(lines: Iterable[Line]) -> bytes:
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def install(capabilities: list[int]) -> None:
    """Puts RuntimeDefault on the calling process and all it starts."""
    apply(program(platform.machine(), capabilities))


def apply(instructions: bytes) -> None:
    """Filters the calling process and all it starts; needs no_new_privs or CAP_SYS_ADMIN."""
    code = ctypes.create_string_buffer(instructions)
    header = struct.pack("HxxxxxxP", (len(code) - 1) // 8, ctypes.addressof(code))
    pointer = ctypes.create_string_buffer(header)
    syscalls.prctl(
        syscalls.PR_SET_SECCOMP, syscalls.SECCOMP_MODE_FILTER, ctypes.addressof(pointer), what="install seccomp filter"
    )
