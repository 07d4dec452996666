"""Keeps the shares registered with a kubelet that may restart.

A kubelet that starts empties the folder of device plugins and makes a new socket there. It contacts no plugin, so the
folder is looked at in every turn. If the kubelet's socket is new, all resources are registered. A single resource is
registered again if its socket is gone, or if no kubelet has followed it for a while.

A resource that the kubelet follows is never registered twice. When a kubelet notices that a socket has closed, it drops
the resource of that name, even if a new socket has been registered since
(pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go). So the old socket closes first, and the new one is registered
after a pause.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence, Set
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from cotenant_agent.device_plugin.offered_shares import OfferedShares
from cotenant_agent.device_plugin.share_server import ShareServer, options
from cotenant_agent.dra.kubelet_api import device_plugin as messages

log = logging.getLogger("cotenant.agent.device_plugin")

VERSION: Final = "v1beta1"
REGISTER_S: Final = 3.0
"""Deadline for the kubelet's answer. It connects back before it answers."""
RETRY_S: Final = 2.0
UNHEARD_S: Final = 20.0
"""A resource that no kubelet has followed for this time is registered again."""
KubeletSocket: TypeAlias = tuple[int, int] | None
"""Inode of the socket and the time at which it was made; None if there is none."""


class Registration:
    """Must be called by one thread. `reason` says why the kubelet does not count the shares; empty if it does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[str, ShareServer] = {}
        self._registered_at: dict[str, float] = {}
        self._kubelet: KubeletSocket = None
        self._quiet_until = 0.0
        self.reason = "the device plugin has not been registered yet"

    def turn(self, offered: Sequence[OfferedShares], now: float) -> None:
        """Offer exactly these resources. `now` is any monotonic clock."""
        wanted = {one.resource: one for one in offered}
        self._withdraw(self._servers.keys() - wanted.keys())
        if now < self._quiet_until:
            return
        kubelet = self._kubelet_socket()
        if kubelet is None:
            self.reason = f"there is no kubelet.sock in {self._folder}: the kubelet does not run, or has another folder"
            return
        if kubelet != self._kubelet:
            self._withdraw(set(self._servers))
            self._kubelet = kubelet
        if missing := [one for name, one in wanted.items() if not self._stands(name, now)]:
            self._register(missing, now)
        for name, server in self._servers.items():
            server.offer(wanted[name])
        self._explain(wanted.keys())

    def stop(self) -> None:
        self._withdraw(set(self._servers))

    def _explain(self, wanted: Set[str]) -> None:
        unheard = sorted(name for name in wanted if not self._is_followed(name))
        if not wanted:
            self.reason = "there is no GPU to offer"
        elif not unheard:
            self.reason = ""
        elif not self.reason:
            self.reason = f"the kubelet does not follow {unheard[0]}"

    def _stands(self, name: str, now: float) -> bool:
        """True if the kubelet follows the resource, or has not had enough time for it yet."""
        server = self._servers.get(name)
        if server is None or not server.socket.exists():
            return False
        return bool(server.listeners) or now - self._registered_at[name] <= UNHEARD_S

    def _register(self, missing: Sequence[OfferedShares], now: float) -> None:
        """Register these on new sockets, after the old ones are closed: closing a socket removes its file by name."""
        followed = [one.resource for one in missing if self._is_followed(one.resource)]
        self._withdraw({one.resource for one in missing} & self._servers.keys())
        if followed:
            self._quiet_until = now + RETRY_S
            self.reason = f"the kubelet is to notice first that the socket of {followed[0]} has closed"
            return
        try:
            with grpc.insecure_channel(f"unix://{self._folder / 'kubelet.sock'}") as channel:
                for one in missing:
                    server = self._servers[one.resource] = ShareServer(self._folder, one)
                    server.start()
                    register(channel, server)
                    self._registered_at[one.resource] = now
        except (grpc.RpcError, OSError, RuntimeError) as error:
            self._withdraw(self._servers.keys() - self._registered_at.keys())
            self._quiet_until = now + RETRY_S
            before, self.reason = self.reason, f"the kubelet does not register the shares: {said(error)}"
            if self.reason != before:
                log.warning("%s", self.reason)
            return
        self.reason = "the kubelet has not asked for the shares yet"
        log.info("registered with the kubelet: %d resources", len(missing))

    def _is_followed(self, name: str) -> bool:
        return name in self._servers and bool(self._servers[name].listeners)

    def _withdraw(self, names: Collection[str]) -> None:
        for name in names:
            self._servers.pop(name).stop()
            self._registered_at.pop(name, None)

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
