"""Real GPUs for pods of the runtime class `nvidia`: the device nodes of the GPUs that NVIDIA_VISIBLE_DEVICES names.

Libraries need no injection, a container sees the machine's own /usr. A UUID that is not on this machine is a simulated
GPU: it brings no device. Without the class, or without the variable, a container has no GPU at all.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

HANDLER: Final = "nvidia"
VARIABLE: Final = "NVIDIA_VISIBLE_DEVICES"
DRIVER = Path("/proc/driver/nvidia/gpus")
SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")


class GpuError(ValueError):
    """The variable names devices that only CDI can give."""


def inventory(folder: Path = DRIVER) -> list[tuple[str, str]]:
    """UUID and device node of every GPU, in the order of the bus, which is that of indices."""
    found = []
    for path in sorted(folder.glob("*/information")):
        fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        found.append((fields["GPU UUID"].strip(), f"nvidia{fields['Device Minor'].strip()}"))
    return found


def nodes(env: Mapping[str, str], gpus: list[tuple[str, str]]) -> list[str]:
    """Names below /dev that a container with this environment sees."""
    asked = [name.strip() for name in env.get(VARIABLE, "").split(",") if name.strip()]
    if mig := [name for name in asked if name.startswith("MIG")]:
        raise GpuError(f"{VARIABLE}: {', '.join(mig)}: MIG devices are given by CDI only")
    chosen = [node for index, (uuid, node) in enumerate(gpus) if "all" in asked or uuid in asked or str(index) in asked]
    return [*SHARED, *chosen] if chosen else []


def devices(env: Mapping[str, str], folder: Path = DRIVER, dev: Path = Path("/dev")) -> list[dict[str, str]]:
    paths = (dev / name for name in nodes(env, inventory(folder)))
    return [{"source": str(path), "target": f"/dev/{path.name}"} for path in paths if path.exists()]
