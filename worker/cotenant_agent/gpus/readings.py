"""Values that a source of GPUs returns: the inventory, samples, XID events. Nothing here talks to hardware."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


class GpuSourceError(RuntimeError):
    """The GPUs of this node cannot be read. The message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU: what does not change while the driver is loaded, and its NVLink peers."""

    uuid: str
    index: int
    gpu_class: str
    memory_mib: int
    product: str = ""
    pci_bus_id: str = ""
    mig: bool = False
    """True if MIG partitions it. Its instances are listed instead of it."""
    peers: tuple[str, ...] = ()
    """UUIDs reached by NVLink, sorted."""
    parent: str = ""
    """UUID of the GPU of which this is a MIG instance; empty for a whole one."""
    profile: str = ""
    """Profile of a MIG instance, such as `1g.10gb`."""
    numa_node: int | None = None
    minor: int | None = None
    """Number of its device node, /dev/nvidia<minor>."""
    resource: str = ""
    """Extended resource as which the kubelet hands it out whole; empty for CUDA GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInventory:
    simulated: bool
    gpus: tuple[Gpu, ...]
    driver_version: str = ""
    unreadable: tuple[str, ...] = ()
    """GPUs that the driver finds and cannot list, each with the reason. They are looked for again."""

    @property
    def resource(self) -> str:
        """Extended resource as which the kubelet hands its devices out; empty for CUDA GPUs."""
        return next((gpu.resource for gpu in self.gpus if gpu.resource), "")


@dataclass(frozen=True, slots=True)
class GpuProcess:
    pid: int
    """As the host numbers it."""
    memory_mib: int | None
    """None if the driver does not show it."""
    sm_percent: int | None = None
    """Part of the multiprocessors' time that its kernels used lately; None if the driver does not show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSigns:
    """A GPU's health as the driver shows it. None: this driver or product does not show it."""

    lost: bool = False
    reset_required: bool = False
    unreadable: str = ""
    """The driver's words, if it cannot read this GPU and reads others."""
    recovery_action: int | None = None
    remap_pending: bool = False
    """A row of memory waits to be remapped, or a page of it to be retired."""
    remap_failed: bool = False
    ecc_uncorrected: int | None = None
    fabric_up: bool | None = None
    """False if the GPU has an NVLink fabric that is not set up, which programs of CUDA need."""
    prohibited: bool = False
    """True if its compute mode lets no program in."""
    throttled: bool = False
    """Slowed by heat or by the power brake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    uuid: str
    used_mib: int | None = None
    utilization_percent: int | None = None
    power_milliwatts: int | None = None
    temperature_c: int | None = None
    processes: tuple[GpuProcess, ...] = ()
    exclusive: bool | None = None
    """True if it accepts one process only; None if the driver does not show it."""
    signs: HealthSigns = HealthSigns()


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A critical event of the driver. Without a UUID, the driver did not know the GPU."""

    uuid: str | None
    code: int
    at: float


@dataclass(frozen=True, slots=True)
class AskedLimit:
    """A limit of GPU memory that a pod of this node asked for."""

    pod_uid: str
    gpu_uuid: str
    cgroup: str
    """Directory of its container below `/sys/fs/cgroup`, as this process sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReading:
    """The limit of one cgroup on one GPU, as the driver shows it."""

    hard_mib: int | None = None
    """None if there is no limit."""
    used_mib: int | None = None


class GpuSource(ABC):
    """A source of GPUs. A call may block as long as a broken driver does, so only threads of `sampler` make calls.

    What is not abstract fits a source that has no events and enforces no limits.
    """

    @abstractmethod
    def inventory(self) -> GpuInventory: ...

    @abstractmethod
    def samples(self) -> tuple[GpuSample, ...]: ...

    @abstractmethod
    def reset(self, uuid: str) -> str:
        """Reset this GPU. Returns an empty text, or the reason of the failure. Called by the thread that takes
        samples.
        """

    def wait_for_xid(self, timeout_s: float) -> XidEvent | None:
        """The next event; None after the timeout."""
        time.sleep(timeout_s)
        return None

    def can_read_limits(self) -> bool:
        """True if limits of cgroups can be read back here."""
        return False

    def memory_limit(self, asked: AskedLimit) -> LimitReading | None:
        """The limit in force; None if it cannot be read."""
        return None
