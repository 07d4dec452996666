"""Folders, names, limits and the configuration file of MPS v3 on one GPU. Pure, except for reading files.

Source: NVIDIA's pages on MPS v3, "Interface", "Configuration File" and "Namespaces". A daemon reads its file once, at
its start. A namespace inherits nothing from its server, so each has both limits. Limits of memory only help programs
that respect them: a client can drop its own limit by one variable, so no level is claimed for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path("/run/cotenant-mps")
"""Path on the host, and in the containers of the agent and of the keeper."""
SERVER: Final = "gpu"
NAME_MAX: Final = 64
SOCKET_MAX: Final = 107
"""Characters of a Unix socket's path."""
MILLI_PER_PERCENT: Final = 10


class MpsError(RuntimeError):
    """A daemon or its server is missing or refuses a command. The message has its own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceLimits:
    """Ceilings for the clients of a namespace: a part of the multiprocessors, and MiB for each client."""

    compute_percent: int
    memory_mib: int


NOBODY: Final = NamespaceLimits(compute_percent=1, memory_mib=1)
"""For clients outside these namespaces: the smallest amounts that can be set."""


@dataclass(frozen=True, slots=True)
class GpuFolder:
    """Files of one GPU's daemon. `path` must be on this machine, because sockets are made in it."""

    path: Path

    @property
    def file(self) -> Path:
        """The configuration. While it exists, the daemon is wanted."""
        return self.path / "mps.toml"

    @property
    def pipes(self) -> Path:
        return self.path / "pipe"

    @property
    def logs(self) -> Path:
        return self.path / "log"

    @property
    def running(self) -> Path:
        """Exists from before the GPU becomes exclusive until after it ceases to be."""
        return self.path / "running"

    def namespace(self, name: str) -> Path:
        """A client is in the namespace whose folder `CUDA_MPS_PIPE_DIRECTORY` names."""
        return self.pipes / SERVER / name


def gpu_folder(root: Path, uuid: str) -> GpuFolder:
    """Folder of a GPU. Its name is short, because paths of sockets are. Raises MpsError if it is still too long."""
    made = GpuFolder(root / _plain(uuid.lower().removeprefix("gpu-"))[:32])
    if len(str(made.namespace("c" * 33) / "control")) > SOCKET_MAX:
        raise MpsError(f"{root} is too long a name for sockets: they may have {SOCKET_MAX} characters")
    return made


def namespace_name(claim_uid: str) -> str:
    """The namespace of a claim: lower-case letters and digits, which is all that MPS accepts."""
    return f"c{_plain(claim_uid.lower())}"[:NAME_MAX]


def percent_of(compute_milli: int) -> int:
    """Whole percents of a GPU, rounded down, at least one."""
    return max(1, min(100, compute_milli // MILLI_PER_PERCENT))


def configuration(uuid: str, namespaces: Mapping[str, NamespaceLimits]) -> str:
    """The document of one server with these namespaces."""
    parts = [['schema_version = "1.0"'], [f"[servers.{SERVER}]", f'allowed_devices = "{uuid}"', *_limits(NOBODY)]]
    for name, limits in sorted(namespaces.items()):
        parts.append([f"[servers.{SERVER}.namespaces.{name}]", *_limits(limits)])
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _limits(limits: NamespaceLimits) -> list[str]:
    return [
        f'active_thread_percentage = "{limits.compute_percent}"',
        f'pinned_memory_limit = "{limits.memory_mib}M"',
    ]


def mebibytes(text: str) -> int:
    """`20G`, `512M` or `1024K`, in binary units. Raises MpsError for anything else."""
    units = {"G": 1024 * 1024, "M": 1024, "K": 1}
    digits, unit = text[:-1], text[-1:]
    if not digits.isdigit() or unit not in units:
        raise MpsError(f"{text!r} is no limit of memory")
    return int(digits) * units[unit] // 1024


def percent(text: str) -> int:
    """`30.00` or `30%`, rounded. Raises MpsError for anything else."""
    try:
        return round(float(text.removesuffix("%")))
    except ValueError as error:
        raise MpsError(f"{text!r} is no percentage of threads") from error


def _plain(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text)
