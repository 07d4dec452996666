"""The system calls that Python 3.11 lacks, as functions that raise OSError with the operand named.

Mounts use open_tree, mount_setattr and move_mount (Linux 5.12): a bind is cloned, made read-only and then attached, so
there is no moment in which it can be written, and flags that a user namespace locks are kept.
"""

import ctypes
import os
import struct
from typing import Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REC, MS_PRIVATE, MS_SLAVE, MS_SHARED = 0x4000, 1 << 18, 1 << 19, 1 << 20
MNT_DETACH: Final = 2
MOUNT_ATTR_RDONLY: Final = 1

AT_FDCWD = -100
AT_EMPTY_PATH: Final = 0x1000
AT_RECURSIVE: Final = 0x8000
OPEN_TREE_CLONE: Final = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH: Final = 4
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_MOUNT_SETATTR = 428, 429, 442

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 22, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
SECCOMP_MODE_FILTER: Final = 2

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    _check(libc.unshare(flags), f"unshare({flags:#x})")


def setns(fd: int, kind: int, what: str) -> None:
    _check(libc.setns(fd, kind), f"enter {what} namespace")


def mount(kind: str, target: str, flags: int = 0, data: str = "") -> None:
    """A new file system instance of `kind`, not a bind."""
    result = libc.mount(
        kind.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode() if data else None
    )
    _check(result, f"mount {kind} on {target}")


def change_propagation(target: str, flags: int) -> None:
    _check(libc.mount(None, os.fsencode(target), None, ctypes.c_ulong(flags), None), f"set propagation of {target}")


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    _check(libc.umount2(os.fsencode(target), flags), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    _check(libc.pivot_root(os.fsencode(new), os.fsencode(old)), f"pivot_root to {new}")


def clone_tree(path: str) -> int:
    """A detached copy of the mount tree at `path`, submounts included (they are locked to it in a user namespace)."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE
    return _check(libc.syscall(SYS_OPEN_TREE, AT_FDCWD, os.fsencode(path), flags), f"bind {path}")


def set_mount(fd: int, *, readonly: bool, propagation: int = 0, recursive: bool = False, what: str = "") -> None:
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY if readonly else 0, 0, propagation, 0)
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    result = libc.syscall(SYS_MOUNT_SETATTR, fd, b"", flags, attributes, ctypes.c_size_t(len(attributes)))
    _check(result, f"set attributes of {what or 'mount'}")


def attach(fd: int, target: str) -> None:
    result = libc.syscall(SYS_MOVE_MOUNT, fd, b"", AT_FDCWD, os.fsencode(target), MOVE_MOUNT_F_EMPTY_PATH)
    _check(result, f"attach a mount at {target}")


def bind(source: str, target: str, *, readonly: bool = False) -> None:
    """`source` with everything below it at `target`, cut off from later changes of the mounts around it."""
    tree = clone_tree(source)
    try:
        set_mount(tree, readonly=readonly, propagation=MS_PRIVATE, recursive=True, what=source)
        attach(tree, target)
    finally:
        os.close(tree)


def prctl(option: int, first: int = 0, second: int = 0, what: str = "prctl") -> None:
    _check(libc.prctl(option, ctypes.c_ulong(first), ctypes.c_ulong(second), 0, 0), what)


def set_name(name: str) -> None:
    """Sets the name and command line that `ps` shows for a forked process."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    libc.prctl(PR_SET_NAME, buffer, 0, 0, 0)
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        ctypes.memmove(start, name.encode()[: end - start - 1].ljust(end - start, b"\0"), end - start)


def set_capabilities(effective: int, permitted: int, inheritable: int) -> None:
    """Bit sets of the calling process, version 3 of the interface (two 32-bit words each)."""
    header = struct.pack("Ii", 0x20080522, 0)
    words = [(value >> shift) & 0xFFFFFFFF for shift in (0, 32) for value in (effective, permitted, inheritable)]
    _check(libc.capset(header, struct.pack("6I", *words)), "set capabilities")
