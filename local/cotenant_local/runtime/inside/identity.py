"""Identity of the program: user, groups, capabilities, no_new_privs, seccomp, limits. The last steps before exec.

If the sandbox has many user ids (root), they are set. If it has one (an ordinary user), a nested user namespace
maps the asked-for id onto it: the program sees itself as that user and owns what the pod's volumes hold.
"""

import os
import resource
import signal
from typing import Any, Final

from cotenant_local.runtime.inside import seccomp, syscalls
from cotenant_local.runtime.inside.reports import SetupError
from cotenant_local.runtime.inside.syscalls import (
    CLONE_NEWUSER,
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
)

LAST_CAPABILITY: Final = 40


def apply(process: dict[str, Any]) -> None:
    """Changes the calling process into the asked-for user with the asked-for rights, and nothing more."""
    for name, (soft, hard) in process["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (soft, hard))
    uid, gid = process["uid"], process["gid"]
    if process["map_user"]:
        joined = process.get("user_namespace")
        if joined is None:
            _map(uid, gid)
        else:
            syscalls.setns(joined, CLONE_NEWUSER, "user")
    elif process["may_set_groups"]:
        os.setgroups(process["groups"])
    if process["no_new_privs"]:
        syscalls.prctl(PR_SET_NO_NEW_PRIVS, 1, what="no_new_privs")
    keep = process["capabilities"]
    for number in range(LAST_CAPABILITY + 1):
        if number not in keep:
            _drop_from_bounding_set(number)
    if process["seccomp"]:
        seccomp.install(keep)
    if not process["map_user"]:
        _set_ids(uid, gid)
    syscalls.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, what="clear ambient capabilities")
    bits = sum(1 << number for number in keep) if uid == 0 else 0
    syscalls.set_capabilities(bits, bits, 0)
    syscalls.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, what="death signal")


def _map(uid: int, gid: int) -> None:
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    syscalls.unshare(CLONE_NEWUSER)
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {outer_uid} 1"),
        ("gid_map", f"{gid} {outer_gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def _set_ids(uid: int, gid: int) -> None:
    try:
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise SetupError(f"cannot become user {uid} group {gid}: {error.strerror}") from error


def _drop_from_bounding_set(number: int) -> None:
    try:
        syscalls.prctl(PR_CAPBSET_DROP, number, what=f"drop capability {number}")
    except OSError as error:
        if error.errno != 22:  # EINVAL: this kernel does not know that one
            raise


def reset_signals() -> None:
    """Python ignores SIGPIPE and SIGXFSZ, the shim more; ignored signals would survive exec."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                continue
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
