"""Detects what this node can do to isolate tenants: nothing assumed, nothing downgraded in silence.

`runtimeClass` and `cdi`: how GPUs can get into a pod; `dmem` and `mps`: what could limit memory and compute. The
isolation level is what Cotenant enforces here today, not what the hardware could do.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    runtime_class: bool = False
    cdi: bool = False
    dmem: bool = False
    mps: bool = False
    env_allowed: bool | None = None
    """The runtime honours NVIDIA_VISIBLE_DEVICES of an ordinary pod; None: its configuration is not mounted."""
    toolkit_version: str = ""


def detect(host: Path, *, runtime_class: bool, product: str = "") -> Capabilities:
    """`host` holds what of the host is mounted here; what is not mounted is not there."""
    return Capabilities(
        runtime_class=runtime_class,
        cdi=any(_has_nvidia_spec(host / folder) for folder in ("etc/cdi", "var/run/cdi")),
        dmem="nvidia" in _text(host / "sys/fs/cgroup/dmem.capacity"),
        mps=(host / "usr/bin/nvidia-cuda-mps-control").exists(),
        env_allowed=_env_allowed(host / "etc/nvidia-container-runtime/config.toml"),
        toolkit_version=toolkit_in(_text(host / "var/lib/dpkg/status")),
    )


def isolation(found: Capabilities, *, simulated: bool, attributing: bool) -> str:
    """The level that is enforced. `Watched` needs the host's /proc to attribute memory. `Hard` is not offered yet."""
    if simulated or not found.runtime_class or found.env_allowed is False:
        return "None"
    return "Watched" if attributing else "Cooperative"


def _env_allowed(config: Path) -> bool | None:
    try:
        document: dict[str, Any] = tomllib.loads(config.read_text())
    except (OSError, tomllib.TOMLDecodeError):
        return None
    return document.get("accept-nvidia-visible-devices-envvar-when-unprivileged", True) is True


def _has_nvidia_spec(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    return any("nvidia.com/gpu" in _text(path) for path in folder.iterdir() if path.suffix in {".yaml", ".json"})


def toolkit_in(packages: str) -> str:
    """The version in Debian's list of packages, where the chart mounts it; elsewhere it stays unknown."""
    for stanza in packages.split("\n\n"):
        if re.search(r"^Package: nvidia-container-toolkit$", stanza, re.MULTILINE):
            found = re.search(r"^Version: (\S+)$", stanza, re.MULTILINE)
            return found[1] if found else ""
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
