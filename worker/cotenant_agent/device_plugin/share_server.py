"""The socket of one resource, through which a kubelet lists shares and allocates them to a container.

A call names neither the pod nor the GPU; the socket stands for the GPU. The container gets the device nodes of this
GPU. Simulated GPUs have none, and NVIDIA's container runtime adds those of MIG instances.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from cotenant.api.conversion.device_shares import MEMORY, WHOLE
from cotenant_agent.device_plugin.offered_shares import OfferedShares
from cotenant_agent.dra.cdi_spec import device_nodes
from cotenant_agent.dra.kubelet_api import device_plugin as messages

CALLS_AT_ONCE: Final = 4
LOOK_S: Final = 5.0
"""If nothing changes, the connection to the kubelet is checked after this time."""
IDS: Final = tuple(str(number) for number in range(WHOLE))
PERMISSIONS: Final = "rw"


class ShareServer:
    """`listeners` is the number of kubelets that follow the shares. Changes go to the newest one."""

    def __init__(self, folder: Path, offered: OfferedShares) -> None:
        digest = hashlib.sha256(offered.resource.encode()).hexdigest()[:16]
        self.socket = folder / f"cotenant-{digest}.sock"
        self.offered = offered
        self.listeners = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._server: Any = None

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)  # of an agent that was killed
        calls = {
            "GetDevicePluginOptions": ("Empty", lambda _request, _context: options()),
            "GetPreferredAllocation": ("PreferredAllocationRequest", preferred),
            "Allocate": ("AllocateRequest", self._allocate),
        }
        handler = messages.handler("DevicePlugin", calls, {"ListAndWatch": ("Empty", self._list_and_watch)})
        self._server = grpc.server(ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix=self.socket.name))
        self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix://{self.socket}")
        self._server.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._server.stop(None).wait()

    def offer(self, offered: OfferedShares) -> None:
        with self._changed:
            if offered != self.offered:
                self.offered = offered
                self._changed.notify_all()

    def _list_and_watch(self, _request: Any, context: Any) -> Iterator[Any]:
        sent: OfferedShares | None = None
        context.add_callback(self._wake)
        with self._changed:
            self.listeners += 1
        try:
            while context.is_active() and not self._stopping:
                now = self.offered
                if now != sent:
                    yield listed(now)
                    sent = now
                with self._changed:
                    if self.offered is now and not self._stopping:
                        self._changed.wait(LOOK_S)
        finally:
            with self._changed:
                self.listeners -= 1

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _allocate(self, request: Any, context: Any) -> Any:
        offered = self.offered
        nodes = device_nodes([offered.gpu]) if offered.dimension == MEMORY else []
        answer = messages["AllocateResponse"]()
        for _ in request.container_requests:
            one = answer.container_responses.add()
            for path in nodes:
                one.devices.add(container_path=path, host_path=path, permissions=PERMISSIONS)
        return answer


def options() -> Any:
    return messages["DevicePluginOptions"](get_preferred_allocation_available=True)


def listed(offered: OfferedShares) -> Any:
    """Every share; the healthy ones have the lowest numbers."""
    answer = messages["ListAndWatchResponse"]()
    for number, name in enumerate(IDS):
        device = answer.devices.add(ID=name, health="Healthy" if number < offered.healthy else "Unhealthy")
        if offered.gpu.numa_node is not None:
            device.topology.nodes.add(ID=offered.gpu.numa_node)
    return answer


def preferred(request: Any, _context: Any) -> Any:
    """The shares with the lowest numbers. Shares are held back from the other end."""
    answer = messages["PreferredAllocationResponse"]()
    for one in request.container_requests:
        must = list(one.must_include_deviceIDs)
        others = sorted(set(one.available_deviceIDs) - set(must), key=by_number)
        room = max(0, one.allocation_size - len(must))
        answer.container_responses.add(deviceIDs=[*must, *others[:room]])
    return answer


def by_number(name: str) -> tuple[int, str]:
    return (int(name) if name.isascii() and name.isdigit() else WHOLE, name)
