"""Linux capabilities of a container: the default set, minus what a pod drops, plus what it adds.

A machine that is itself a container may lack some.
"""

from collections.abc import Iterable
from pathlib import Path

ALL_NAMES = """
CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
CAPABILITIES = tuple(ALL_NAMES.split())
NUMBERS = {name: number for number, name in enumerate(CAPABILITIES)}
DEFAULT_NAMES = """
CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL
AUDIT_WRITE
"""
DEFAULT = frozenset(DEFAULT_NAMES.split())


class UnknownCapabilityError(ValueError):
    """A pod names a capability that Linux does not have, or this machine does not give."""


def available() -> frozenset[str]:
    """Capabilities that this process may hand on."""
    status = Path("/proc/self/status").read_text()
    mask = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:")), 16)
    return frozenset(name for name, number in NUMBERS.items() if mask >> number & 1)


def kept_numbers(
    add: Iterable[str], drop: Iterable[str], *, privileged: bool, have: frozenset[str] = frozenset(CAPABILITIES)
) -> list[int]:
    """Numbers of the granted capabilities: the default set, minus dropped ones, plus added ones.

    "All" and the default set mean the capabilities that the machine has. One that is added by name must exist.
    """
    everything = frozenset(CAPABILITIES)
    kept = set(everything if privileged else DEFAULT)
    dropped, added = _names(drop), _names(add)
    kept -= everything if "ALL" in dropped else dropped
    kept |= everything if "ALL" in added else added
    if unknown := sorted((dropped | added) - everything - {"ALL"}):
        raise UnknownCapabilityError(f"unknown capabilities {', '.join(unknown)}")
    if lacking := sorted(added - {"ALL"} - have):
        raise UnknownCapabilityError(f"this machine does not have the capabilities {', '.join(lacking)} to give")
    return sorted(NUMBERS[name] for name in kept & have)


def _names(names: Iterable[str]) -> set[str]:
    return {name.upper().removeprefix("CAP_") for name in names}
