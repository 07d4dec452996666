"""What a source of GPUs says, as values: what a GPU is, how it does right now, and what happened to it.

Written by `nvml` and `simulated`, read by everything else in the agent. Nothing here talks to hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class SourceError(RuntimeError):
    """The GPUs of this node cannot be read. The message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What does not change while the driver is loaded."""

    uuid: str
    index: int
    gpu_class: str
    memory_mib: int
    product: str = ""
    pci_bus_id: str = ""
    mig: bool = False
    peers: tuple[str, ...] = ()
    """UUIDs reached by NVLink, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    simulated: bool
    gpus: tuple[Gpu, ...]
    driver_version: str = ""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    pid: int
    """As the host numbers it."""
    memory_mib: int | None
    """None: the driver does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What the driver says of a GPU's health. None: it does not tell."""

    lost: bool = False
    reset_required: bool = False
    recovery_action: int | None = None
    remap_pending: bool = False
    remap_failed: bool = False
    ecc_uncorrected: int | None = None
    throttled: bool = False
    """By heat or by the power brake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One GPU at one moment."""

    uuid: str
    used_mib: int | None = None
    utilization_percent: int | None = None
    processes: tuple[GpuProcess, ...] = ()
    signs: Signs = Signs()


@dataclass(frozen=True, slots=True)
class Xid:
    """A critical event of the driver. No UUID: the driver could not say which GPU it was."""

    uuid: str | None
    code: int
    at: float


class Source(Protocol):
    """Where GPUs come from. Calls may block for as long as a broken driver pleases; the sampler thread makes them."""

    def inventory(self) -> Inventory: ...

    def samples(self) -> tuple[Sample, ...]: ...

    def wait_for_xid(self, timeout_s: float) -> Xid | None: ...
