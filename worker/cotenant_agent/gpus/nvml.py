"""The real source: NVML through nvidia-ml-py (`import pynvml`), opened once for the agent's life.

A value that cannot be read becomes None (`nvml_queries`). A GPU that cannot be reached or read becomes a sign, not an
exception. Only if all GPUs fail, the driver is the cause.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pynvml

from cotenant_agent.gpus import mig
from cotenant_agent.gpus.memory_limit_reader import MemoryLimitReader
from cotenant_agent.gpus.nvidia_smi import reset_device
from cotenant_agent.gpus.nvml_queries import (
    GpuLostError,
    decoded,
    is_exclusive,
    linked,
    memory_of,
    processes_of,
    query,
    signs_of,
)
from cotenant_agent.gpus.pci_devices import PCI_DEVICES, unlisted
from cotenant_agent.gpus.readings import (
    MIB,
    AskedLimit,
    Gpu,
    GpuInventory,
    GpuSample,
    GpuSource,
    GpuSourceError,
    HealthSigns,
    LimitReading,
    XidEvent,
)

LOOK_INTERVAL_S: Final = 60.0
"""Pause between two looks at NVLink, which take a call for each pair of GPUs, and at the layouts of MIG. Both rarely
change.
"""
INDEX_STEP: Final = 100
"""Instances of GPU 0 are numbered from 100, those of GPU 1 from 200. No driver has more GPUs or instances."""
FAMILY: Final = re.compile(r"\b(GB\d{3}|GH\d{3}|[ABHLTVPK]\d{1,4}[A-Z]{0,2})\b")
NOISE: Final = re.compile(r"\b(NVIDIA|Tesla|Quadro|GeForce|Generation|Graphics|Device)\b", re.IGNORECASE)


def class_of(product: str) -> str:
    """`NVIDIA H100 80GB HBM3` → `H100`; a product without a family keeps its name: `GeForce RTX 4090` → `RTX4090`."""
    found = FAMILY.search(product.replace("-", " "))
    if found is not None:
        return found[1]
    return re.sub(r"[^A-Za-z0-9]+", "", NOISE.sub("", product)) or "GPU"


class NvmlSource(GpuSource):
    def __init__(self, pci_devices: Path = PCI_DEVICES) -> None:
        self._pci_devices = pci_devices
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError_LibraryNotFound as error:
            raise GpuSourceError(
                "libnvidia-ml.so.1 is not in this container: give the agent's pod runtimeClass nvidia and "
                "NVIDIA_VISIBLE_DEVICES=all, or tell it to simulate (--simulate)"
            ) from error
        except pynvml.NVMLError as error:
            raise GpuSourceError(f"NVML does not start on this node: {error}. Is the NVIDIA driver loaded?") from error
        self._physical: dict[str, Any] = {}
        self._handles: dict[str, Any] = {}
        """Handles of everything that can be handed out: GPUs, or instances of partitioned GPUs."""
        self._inventory: GpuInventory | None = None
        self._looked_at = 0.0
        self._signs_of: dict[str, Any] = {}
        """Instance → handle of its GPU, whose health it shares."""
        self._events: Any = None
        self._limits = MemoryLimitReader()
        self._waiting = threading.Lock()
        """Lock held while a thread waits for events, and by a reset, which closes the library."""
        self._resetting = False

    def inventory(self) -> GpuInventory:
        """Read once. A GPU that is lost later stays listed as unhealthy. Read again if MIG is changed, and while a GPU
        cannot be listed or none is there.
        """
        known, now = self._inventory, time.monotonic()
        if known is not None and now - self._looked_at < LOOK_INTERVAL_S:
            return known
        try:
            if known is not None and (known.unreadable or not known.gpus):
                self._reopened()  # the library finds GPUs when it is opened
            if known is None or self._inventory is None or self._has_new_layout(known):
                known = self._discover()
        except pynvml.NVMLError as error:
            raise GpuSourceError(f"NVML cannot list the GPUs: {error}") from error
        gpus = (gpu if gpu.parent else replace(gpu, peers=self._peers(gpu.uuid)) for gpu in known.gpus)
        self._inventory, self._looked_at = replace(known, gpus=tuple(gpus)), now
        return self._inventory

    def _has_new_layout(self, known: GpuInventory) -> bool:
        """True if MIG was turned on or off, or if instances were made or removed."""
        for uuid, handle in self._physical.items():
            before = {gpu.uuid for gpu in known.gpus if uuid in (gpu.uuid, gpu.parent) and not gpu.mig}
            try:
                if mig.uuids_of(uuid, handle) != before:
                    return True
            except (GpuLostError, pynvml.NVMLError):
                continue
        return False

    def _peers(self, uuid: str) -> tuple[str, ...]:
        near, others = self._physical[uuid], self._physical.items()
        return tuple(sorted(other for other, far in others if other != uuid and linked(near, far)))

    def _discover(self) -> GpuInventory:
        """All GPUs that can be listed. One that cannot keeps no other from being handed out."""
        handles, unreadable = dict[str, tuple[int, Any]](), list[str]()
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                handles[decoded(pynvml.nvmlDeviceGetUUID(handle))] = (index, handle)
            except pynvml.NVMLError as error:
                unreadable.append(f"GPU {index}: {error}")
        self._physical = {uuid: handle for uuid, (_, handle) in handles.items()}
        self._handles, self._signs_of = {}, {}
        gpus: list[Gpu] = []
        for uuid, (index, handle) in handles.items():
            try:
                gpus += self._parts(uuid, index, handle)
            except (GpuLostError, pynvml.NVMLError) as error:
                del self._physical[uuid]
                unreadable.append(f"GPU {index} ({uuid}): {error}")
        if unreadable and not gpus:
            raise GpuSourceError(f"NVML cannot list the GPUs: {'; '.join(unreadable)}")
        addresses = {gpu.pci_bus_id for gpu in gpus}
        if not unreadable and "" not in addresses:  # a GPU that NVML has counted would be named as missing
            missing = unlisted(addresses, self._pci_devices)
            unreadable += [f"GPU at {one}: on the PCI bus, and the driver could not set it up" for one in missing]
        return GpuInventory(
            simulated=False,
            gpus=tuple(gpus),
            driver_version=decoded(query(pynvml.nvmlSystemGetDriverVersion) or ""),
            unreadable=tuple(unreadable),
        )

    def _parts(self, uuid: str, index: int, handle: Any) -> list[Gpu]:
        """What of this GPU can be handed out: its MIG instances, or itself."""
        whole = self._facts(uuid, index, handle)
        instances = {part.uuid: (part, at) for part, at in instances_of(whole, handle)} if whole.mig else {}
        self._handles |= {part.uuid: at for part, at in instances.values()} or {uuid: handle}
        self._signs_of |= dict.fromkeys(instances, handle)
        return [part for part, _ in instances.values()] or [whole]

    def _facts(self, uuid: str, index: int, handle: Any) -> Gpu:
        product = decoded(query(pynvml.nvmlDeviceGetName, handle))
        memory = memory_of(handle)
        pci = query(pynvml.nvmlDeviceGetPciInfo, handle)
        return Gpu(
            uuid=uuid,
            index=index,
            gpu_class=class_of(product),
            memory_mib=memory.usable_mib if memory else 0,
            product=product,
            pci_bus_id=decoded(pci.busId) if pci is not None else "",
            mig=mig.is_enabled(handle),
            numa_node=query(pynvml.nvmlDeviceGetNumaNodeId, handle),
            minor=query(pynvml.nvmlDeviceGetMinorNumber, handle),
        )

    def samples(self) -> tuple[GpuSample, ...]:
        found, failed = [], dict[str, pynvml.NVMLError]()
        for uuid, handle in self._handles.items():
            try:
                found.append(self._sample(uuid, handle))
            except pynvml.NVMLError as error:
                failed[uuid] = error
                found.append(GpuSample(uuid=uuid, signs=HealthSigns(unreadable=str(error))))
        if failed and len(failed) == len(found):  # the driver fails, and not a GPU
            first = next(iter(failed.values()))
            raise GpuSourceError(f"NVML cannot read the GPUs: {first}") from first
        return tuple(found)

    def _sample(self, uuid: str, handle: Any) -> GpuSample:
        try:
            memory = memory_of(handle)
            load = query(pynvml.nvmlDeviceGetUtilizationRates, handle)
            return GpuSample(
                uuid=uuid,
                used_mib=memory.used // MIB if memory else None,
                utilization_percent=int(load.gpu) if load is not None else None,
                power_milliwatts=query(pynvml.nvmlDeviceGetPowerUsage, handle),
                temperature_c=query(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
                processes=processes_of(handle),
                exclusive=is_exclusive(handle),
                signs=signs_of(self._signs_of.get(uuid, handle)),
            )
        except GpuLostError as lost:
            return GpuSample(
                uuid=uuid, signs=HealthSigns(lost=not lost.reset_required, reset_required=lost.reset_required)
            )

    def wait_for_xid(self, timeout_s: float) -> XidEvent | None:
        if self._resetting:
            time.sleep(timeout_s)  # a lock alone would let this thread have it again and again
            return None
        with self._waiting:
            return self._wait_for_xid(timeout_s)

    def _wait_for_xid(self, timeout_s: float) -> XidEvent | None:
        try:
            if self._events is None:
                self._events = self._register()
            event = pynvml.nvmlEventSetWait_v2(self._events, int(timeout_s * 1000))
        except pynvml.NVMLError_Timeout:
            return None
        except pynvml.NVMLError_GpuIsLost:
            self._events = None  # one lost GPU ends all waits: the next one is for the events of the others
            return None
        except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError) as error:
            raise GpuSourceError(f"NVML cannot wait for events: {error}") from error
        try:
            uuid = decoded(pynvml.nvmlDeviceGetUUID(event.device)) or None
        except pynvml.NVMLError:
            uuid = None
        return XidEvent(uuid, int(event.eventData), time.time())

    def can_read_limits(self) -> bool:
        return self._limits.supported

    def memory_limit(self, asked: AskedLimit) -> LimitReading | None:
        handle = self._handles.get(asked.gpu_uuid)
        return None if handle is None else self._limits.read(handle, asked.cgroup)

    def reset(self, uuid: str) -> str:
        return self._reopened(lambda: reset_device(uuid))

    def _reopened(self, while_closed: Callable[[], str] = lambda: "") -> str:
        """Close the library, and open it again after `while_closed`, whose result is returned."""
        self._resetting = True
        with self._waiting:
            try:
                pynvml.nvmlShutdown()
                error = while_closed()
                pynvml.nvmlInit()
            except pynvml.NVMLError as failure:
                raise GpuSourceError(f"NVML does not open again: {failure}") from failure
            finally:
                # Handles and events belong to the library that was closed, so they are made again.
                self._inventory, self._events, self._resetting = None, None, False
        return error

    def _register(self) -> Any:
        events = pynvml.nvmlEventSetCreate()
        for handle in self._physical.values():
            try:
                query(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, events)
            except (GpuLostError, pynvml.NVMLError):
                continue  # the next polls show what is wrong with it
        return events


def instances_of(whole: Gpu, handle: Any) -> Iterator[tuple[Gpu, Any]]:
    """The MIG instances of a GPU, each with its handle. NVLink joins no two of them."""
    for slot, instance in enumerate(mig.instance_handles(handle)):
        memory = memory_of(instance)
        product = decoded(query(pynvml.nvmlDeviceGetName, instance))
        profile = mig.profile_of(product, memory.total // MIB if memory else 0, mig.slices_of(instance))
        uuid = decoded(query(pynvml.nvmlDeviceGetUUID, instance))
        part = Gpu(
            uuid=uuid,
            index=(whole.index + 1) * INDEX_STEP + slot,
            gpu_class=f"{whole.gpu_class}-{profile}",
            memory_mib=memory.usable_mib if memory else 0,
            product=product,
            pci_bus_id=whole.pci_bus_id,
            parent=whole.uuid,
            profile=profile,
        )
        yield part, instance
