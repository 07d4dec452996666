"""What AMD's `amd-smi` says about the GPUs that the kubelet hands out: class, memory, driver, and current use.

The number of devices and of healthy ones comes from the kubelet, which hands them out. It does not say which device a
pod has. A figure here belongs to the GPU at a PCI address, and to no pod; therefore processes are left out.

The JSON of `amd-smi` differs between releases of ROCm: with or without `gpu_data` around the list, amounts with or
without unit, "N/A" for what a product lacks. A value that cannot be read is unknown, and takes no device out of
service.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cotenant_agent.devices.extended_resource import ExtendedResourceSource, class_in
from cotenant_agent.gpus.readings import GpuInventory, GpuSample, GpuSource, HealthSigns

log = logging.getLogger("cotenant.agent")

STATIC: Final = ("static", "--asic", "--bus", "--vram", "--driver", "--json")
METRIC: Final = ("metric", "--usage", "--power", "--temperature", "--mem-usage", "--ecc", "--json")
TIMEOUT_S: Final = 20.0
READ_S: Final = 10.0
"""Pause between two looks. Each starts the program, which takes about 50 ms of CPU."""
MIB_PER: Final = {"B": 1 / (1 << 20), "KB": 1 / 1024, "MB": 1, "GB": 1024, "TB": 1 << 20}
"""The program divides by powers of two, whatever the unit is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdGpu:
    """A GPU as `amd-smi static` describes it."""

    product: str = ""
    memory_mib: int = 0
    pci_bus_id: str = ""
    driver: str = ""


class AmdSmi:
    """The program `amd-smi`. If it cannot be asked, its answers are empty, and the reason is logged once."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._wrong = ""

    def static(self) -> dict[int, AmdGpu]:
        """Index in the program's list → device."""
        return {index: described(one) for index, one in self._ask(STATIC).items()}

    def metric(self) -> dict[int, GpuSample]:
        """Index → sample, without a UUID."""
        return {index: measured(one) for index, one in self._ask(METRIC).items()}

    def _ask(self, arguments: tuple[str, ...]) -> dict[int, Mapping[str, Any]]:
        try:
            done = subprocess.run(
                [self._program, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=True,
            )
            found = gpus_in(json.loads(done.stdout))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            self._note(f"{self._program} {arguments[0]}: {said[-1][:200] if said else type(error).__name__}")
            return {}
        self._note("")
        return found

    def _note(self, wrong: str) -> None:
        if wrong and wrong != self._wrong:
            log.warning("no live use of AMD's GPUs: %s", wrong)
        self._wrong = wrong


@dataclass(slots=True)
class AmdSmiSource(GpuSource):
    """The devices of `inner`, completed by what `amd-smi` says; unchanged without it."""

    inner: ExtendedResourceSource
    smi: AmdSmi
    clock: Callable[[], float] = time.monotonic
    _static: dict[int, AmdGpu] = field(default_factory=dict)
    _metric: tuple[float, dict[int, GpuSample]] | None = None

    def inventory(self) -> GpuInventory:
        listed = self.inner.inventory()
        self._static = self._static or self.smi.static()
        if len(self._static) != len(listed.gpus):
            return listed  # of partitions, or of a part of the GPUs: which is which cannot be told
        gpus = []
        for gpu, (_, shown) in zip(listed.gpus, sorted(self._static.items()), strict=True):
            named = gpu.product or not shown.product
            gpus.append(
                replace(
                    gpu,
                    gpu_class=gpu.gpu_class if named else class_in(shown.product.replace(" ", "_")),
                    memory_mib=shown.memory_mib or gpu.memory_mib,
                    product=gpu.product or shown.product,
                    pci_bus_id=shown.pci_bus_id,
                )
            )
        driver = next((one.driver for one in self._static.values()), "")
        return replace(listed, gpus=tuple(gpus), driver_version=driver)

    def samples(self) -> tuple[GpuSample, ...]:
        offered = self.inner.samples()
        order = sorted(self._static)
        if len(order) != len(self.inner.inventory().gpus):
            return offered
        measured_now = self._measured()
        return tuple(
            replace(measured_now[index], uuid=sample.uuid) if index in measured_now else sample
            for index, sample in zip(order, offered, strict=False)
        )

    def _measured(self) -> dict[int, GpuSample]:
        now = self.clock()
        if self._metric is None or now - self._metric[0] >= READ_S:
            self._metric = now, self.smi.metric()
        return self._metric[1]

    def reset(self, uuid: str) -> str:
        return self.inner.reset(uuid)


def gpus_in(document: Any) -> dict[int, Mapping[str, Any]]:
    """Index → the entry of that GPU. Raises ValueError for a document of another form."""
    listed = document.get("gpu_data") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise ValueError("this is no list of GPUs")
    return {one["gpu"]: one for one in listed if isinstance(one, dict) and type(one.get("gpu")) is int}


def described(gpu: Mapping[str, Any]) -> AmdGpu:
    bus, driver = _text(gpu, "bus", "bdf"), _text(gpu, "driver", "version") or _text(gpu, "driver", "driver_version")
    memory = _amount(gpu, "vram", "size", units=MIB_PER)
    return AmdGpu(
        product=_text(gpu, "asic", "market_name"),
        memory_mib=int(memory) if memory is not None else 0,
        pci_bus_id=bus,
        driver=driver,
    )


def measured(gpu: Mapping[str, Any]) -> GpuSample:
    used = _amount(gpu, "mem_usage", "used_vram", units=MIB_PER)
    busy, power = _amount(gpu, "usage", "gfx_activity"), _amount(gpu, "power", "socket_power")
    hot = _amount(gpu, "temperature", "hotspot")
    heat = _amount(gpu, "temperature", "edge") if hot is None else hot
    errors = _amount(gpu, "ecc", "total_uncorrectable_count")
    return GpuSample(
        uuid="",
        used_mib=None if used is None else round(used),
        utilization_percent=None if busy is None else min(100, round(busy)),
        power_milliwatts=None if power is None else round(power * 1000),
        temperature_c=None if heat is None else round(heat),
        signs=HealthSigns(ecc_uncorrected=None if errors is None else int(errors)),
    )


def _at(gpu: Mapping[str, Any], *path: str) -> Any:
    found: Any = gpu
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _text(gpu: Mapping[str, Any], *path: str) -> str:
    found = _at(gpu, *path)
    return found if isinstance(found, str) and found != "N/A" else ""


def _amount(gpu: Mapping[str, Any], *path: str, units: Mapping[str, float] | None = None) -> float | None:
    """A number that is not negative, also from `{"value": 87, "unit": "%"}` or `87 %`; None for anything else."""
    found = _at(gpu, *path)
    value, unit = (found.get("value"), found.get("unit")) if isinstance(found, dict) else (found, None)
    if isinstance(value, str) and (text := re.fullmatch(r"(\d{1,15}(?:\.\d+)?)\s*(\S*)", value.strip())):
        value, unit = float(text[1]), text[2] or unit
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return value if units is None else value * units.get(str(unit or "MB").upper(), 1)
