"""Detects what this node can do to isolate tenants. Nothing is assumed, and no level is lowered silently.

`runtimeClass` and `cdi` are ways by which GPUs get into a pod; `dmem` could limit memory. A path is available if
nothing is missing for it. Each missing thing is named.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant_agent.gpus.readings import GpuInventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    runtime_class: bool = False
    cdi: bool = False
    dmem: bool = False
    env_allowed: bool | None = None
    """True if the runtime honours NVIDIA_VISIBLE_DEVICES of an ordinary pod; None if its configuration was not found.
    """
    runtime_config: str = ""
    """Path of that configuration on the host."""
    toolkit_version: str = ""
    cgroup_v2: bool = False
    limits_readable: bool = False
    """True if the driver's library can read memory limits back."""


RUNTIME_CONFIGS: Final = (
    "usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
    "etc/nvidia-container-runtime/config.toml",
)
"""Configurations of the NVIDIA runtime. With the GPU Operator, the toolkit makes the RuntimeClass."""
ENV_SETTING: Final = "accept-nvidia-visible-devices-envvar-when-unprivileged"

DRIVER_MIN: Final = (615,)
TOOLKIT_MIN: Final = (1, 20, 1)
"""First versions that limit GPU memory of a container. MPS v3 comes with the same driver."""


NOT_ATTRIBUTING: Final = "the agent's pod lacks the host's /proc or hostPID (agent.host.proc of the chart)"
"""Why the agent does not see whose processes are on a GPU."""


def detect(host: Path, *, runtime_class: bool, limits_readable: bool = False, toolkit: str = "") -> Capabilities:
    """Capabilities of this node. `host` contains the mounted parts of the host; a part that is not mounted counts as
    missing.

    `toolkit` is the version of the container toolkit, if no list of packages has it.
    """
    config, env_allowed = _runtime_config(host)
    return Capabilities(
        runtime_class=runtime_class,
        cdi=any(_has_nvidia_spec(host / folder) for folder in ("etc/cdi", "var/run/cdi")),
        dmem="nvidia" in _text(host / "sys/fs/cgroup/dmem.capacity"),
        env_allowed=env_allowed,
        runtime_config=config,
        toolkit_version=toolkit or toolkit_in(_text(host / "var/lib/dpkg/status")),
        limits_readable=limits_readable,
        cgroup_v2=(host / "sys/fs/cgroup/cgroup.controllers").exists(),
    )


def isolation(found: Capabilities, *, simulated: bool, attributing: bool) -> str:
    """The level of memory isolation without any limit of the driver. `Watched` needs to see whose processes are on a
    GPU."""
    if simulated or runtime_class_missing(found):
        return "None"
    return "Watched" if attributing else "Cooperative"


def runtime_class_missing(found: Capabilities) -> tuple[str, ...]:
    """What keeps GPUs from getting into pods by the runtime."""
    missing = [] if found.runtime_class else ["there is no RuntimeClass for NVIDIA's container runtime"]
    if found.env_allowed is False:
        missing.append(
            f"the runtime does not honour NVIDIA_VISIBLE_DEVICES of ordinary pods: {found.runtime_config} says "
            f"{ENV_SETTING} = false; set it to true and start the node's container runtime anew"
        )
    return tuple(missing)


def mig_missing(found: Capabilities, inventory: GpuInventory) -> tuple[str, ...]:
    """What keeps pods from getting MIG instances."""
    instances = () if any(gpu.parent for gpu in inventory.gpus) else ("no GPU of this node has MIG instances",)
    return (*runtime_class_missing(found), *instances)


def memory_limit_missing(found: Capabilities, inventory: GpuInventory) -> tuple[str, ...]:
    """Everything that keeps the driver from limiting GPU memory of pods; empty if it can."""
    if inventory.simulated:
        return ("the GPUs are simulated",)
    missing = list(runtime_class_missing(found))
    driver, toolkit = version_in(inventory.driver_version), version_in(found.toolkit_version)
    if driver < DRIVER_MIN:
        missing.append(f"the driver is {inventory.driver_version or 'unknown'}, it must be 615 or later")
    if not found.limits_readable:
        missing.append("the driver's library cannot read limits back (nvmlDeviceGetMemoryLimits_v1)")
    if toolkit < TOOLKIT_MIN:
        missing.append(f"the container toolkit is {found.toolkit_version or 'unknown'}, it must be 1.20.1 or later")
    if not found.cgroup_v2:
        missing.append("the host's cgroup v2 tree is not mounted in the agent's pod")
    if any(gpu.mig or gpu.parent for gpu in inventory.gpus):
        missing.append("a GPU is partitioned by MIG, on which the driver has no such limits")
    return tuple(missing)


def mps_missing(inventory: GpuInventory) -> tuple[str, ...]:
    """What keeps MPS v3 from the GPUs of this node, whoever keeps its daemons."""
    if inventory.simulated:
        return ("the GPUs are simulated",)
    missing = []
    if version_in(inventory.driver_version) < DRIVER_MIN:
        missing.append(f"the driver is {inventory.driver_version or 'unknown'}, it must be 615 or later")
    if any(gpu.mig or gpu.parent for gpu in inventory.gpus):
        missing.append("a GPU is partitioned by MIG, on which there is no MPS of ours")
    return tuple(missing)


def version_in(text: str) -> tuple[int, ...]:
    """Numbers of a version: `1.20.1-1` → (1, 20, 1). A text without numbers gives (), which is less than all."""
    found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _runtime_config(host: Path) -> tuple[str, bool | None]:
    """The first readable configuration, and whether it lets ordinary pods ask for GPUs by their environment."""
    for path in RUNTIME_CONFIGS:
        try:
            document: dict[str, Any] = tomllib.loads((host / path).read_text())
        except (OSError, ValueError):
            continue
        return f"/{path}", document.get(ENV_SETTING, True) is True
    return "", None


def _has_nvidia_spec(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    return any("nvidia.com/gpu" in _text(path) for path in folder.iterdir() if path.suffix in {".yaml", ".json"})


def toolkit_in(packages: str) -> str:
    """The version in Debian's list of packages, if the chart mounts it; otherwise unknown."""
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
