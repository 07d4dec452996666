"""Keeps the shares registered with a kubelet that comes and goes.

A kubelet that starts empties the folder of device plugins and makes its own socket there anew; it asks nobody. So the
folder is looked at in every turn: where the kubelet's socket is another one, one of ours is gone, or nobody has
followed a resource for a while, all sockets are made again and registered.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from cotenant_agent.device_plugin.offered_shares import OfferedShares
from cotenant_agent.device_plugin.share_server import ShareServer, options
from cotenant_agent.dra.kubelet_api import device_plugin as messages

log = logging.getLogger("cotenant.agent.device_plugin")

VERSION: Final = "v1beta1"
REGISTER_S: Final = 3.0
"""For the kubelet to answer. It dials back before it does."""
RETRY_S: Final = 2.0
UNHEARD_S: Final = 20.0
"""Time after which a resource that no kubelet follows is registered again."""
KubeletSocket: TypeAlias = tuple[int, int] | None
"""Inode and time of its making; None: there is none."""


class Registration:
    """One thread calls it. `reason` says why the kubelet does not count the shares; empty where it follows them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[str, ShareServer] = {}
        self._kubelet: KubeletSocket = None
        self._registered_at = 0.0
        self._quiet_until = 0.0
        self.reason = "the device plugin has not been registered yet"

    def turn(self, offered: Sequence[OfferedShares], now: float) -> None:
        """Offer exactly these; `now` is any clock that goes on."""
        wanted = {one.resource: one for one in offered}
        self._withdraw([server for name, server in self._servers.items() if name not in wanted])
        if now < self._quiet_until:
            return
        kubelet = self._kubelet_socket()
        if kubelet is None:
            self.reason = f"there is no kubelet.sock in {self._folder}: the kubelet does not run, or has another folder"
            return
        if self._must_register(kubelet, wanted, now):
            self._register(kubelet, wanted, now)
        for name, server in self._servers.items():
            server.offer(wanted[name])
        if not self.reason and (unheard := self._unheard()):
            self.reason = f"the kubelet does not follow {unheard[0]}"
        elif not self._unheard() and self._servers:
            self.reason = ""

    def stop(self) -> None:
        self._withdraw(list(self._servers.values()))

    def _must_register(self, kubelet: KubeletSocket, wanted: Mapping[str, OfferedShares], now: float) -> bool:
        if kubelet != self._kubelet or wanted.keys() != self._servers.keys():
            return True
        if not all(server.socket.exists() for server in self._servers.values()):
            return True
        return bool(self._unheard()) and now - self._registered_at > UNHEARD_S

    def _unheard(self) -> list[str]:
        return sorted(name for name, server in self._servers.items() if not server.listeners)

    def _register(self, kubelet: KubeletSocket, wanted: Mapping[str, OfferedShares], now: float) -> None:
        """All sockets anew, the old ones gone first: one that is closed takes its file away, by name."""
        self._withdraw(list(self._servers.values()))
        self._quiet_until = now + RETRY_S
        try:
            for name, one in wanted.items():
                server = ShareServer(self._folder, one)
                server.start()
                self._servers[name] = server
            with grpc.insecure_channel(f"unix://{self._folder / 'kubelet.sock'}") as channel:
                for server in self._servers.values():
                    register(channel, server)
        except (grpc.RpcError, OSError, RuntimeError) as error:
            before, self.reason = self.reason, f"the kubelet does not register the shares: {said(error)}"
            if self.reason != before:
                log.warning("%s", self.reason)
            self._kubelet = None
            return
        self._kubelet, self._registered_at, self._quiet_until = kubelet, now, 0.0
        self.reason = "the kubelet has not asked for the shares yet" if wanted else "there is no GPU to offer"
        log.info("registered with the kubelet: %d resources", len(wanted))

    def _withdraw(self, servers: Sequence[ShareServer]) -> None:
        for server in servers:
            server.stop()
            self._servers.pop(server.offered.resource, None)

    def _kubelet_socket(self) -> KubeletSocket:
        try:
            found = (self._folder / "kubelet.sock").stat()
        except OSError:
            return None
        return (found.st_ino, found.st_ctime_ns)


def register(channel: Any, server: ShareServer) -> None:
    """Raises grpc.RpcError with the kubelet's reason."""
    call = channel.unary_unary(
        f"/{VERSION}.Registration/Register",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=messages["Empty"].FromString,
    )
    request = messages["RegisterRequest"](
        version=VERSION, endpoint=server.socket.name, resource_name=server.offered.resource, options=options()
    )
    call(request, timeout=REGISTER_S)


def said(error: Exception) -> str:
    """Answer of a kubelet, in one line."""
    details = error.details() if isinstance(error, grpc.Call) else str(error)
    return " ".join((details or type(error).__name__).split())[:300]
