"""GPUs that the kernel has given to NVIDIA's driver. The driver lists fewer if it could not set one up."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

PCI_DEVICES: Final = Path("/sys/bus/pci/devices")
"""Every container sees the devices of its host there."""
_NVIDIA: Final = "0x10de"
_GPUS: Final = ("0x0300", "0x0302")
"""How the classes of display and 3D controllers begin."""


def unlisted(listed: Collection[str], devices: Path = PCI_DEVICES) -> tuple[str, ...]:
    """PCI addresses of GPUs that the driver `nvidia` has and does not list. `listed` has addresses as NVML writes
    them.
    """
    known = {_address(one) for one in listed}
    return tuple(sorted(one for one in _of_the_driver(devices) if _address(one) not in known))


def _of_the_driver(devices: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for device in devices.iterdir():
            is_virtual = (device / "physfn").exists()
            if _is_gpu(device) and not is_virtual and (device / "driver").resolve().name == "nvidia":
                yield device.name


def _is_gpu(device: Path) -> bool:
    try:
        vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text()
    except OSError:
        return False
    return vendor == _NVIDIA and kind.startswith(_GPUS)


def _address(written: str) -> tuple[int, str]:
    """`00000000:2A:00.0` of NVML and `0000:2a:00.0` of the kernel are equal."""
    domain, _, rest = written.partition(":")
    try:
        return int(domain, 16), rest.lower()
    except ValueError:
        return -1, written
