"""A kubelet as a device plugin meets it: it empties the folder when it starts, and dials back before it answers.

When it notices that a socket has closed, it drops whatever is registered under the name by then, as the real one does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from cotenant_agent.dra.kubelet_api import device_plugin as messages


class FakeKubelet:
    """`refuses`: what it answers to a registration. `deaf_to`: resources that it registers and never asks for."""

    def __init__(self, folder: Path, *, refuses: str = "", deaf_to: Collection[str] = ()) -> None:
        self.folder, self.refuses, self.deaf_to = folder, refuses, deaf_to
        self.notices = threading.Event()
        """Cleared: it is slow, and has not noticed yet what has closed."""
        self.notices.set()
        self.endpoints: dict[str, Path] = {}
        self.registrations: list[str] = []
        self.shares: dict[str, dict[str, str]] = {}
        self._news = threading.Condition(threading.RLock())
        self._channels: list[Any] = []
        self._followed: dict[str, Any] = {}
        """Resource → channel to the socket that was registered last."""
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        handler = messages.handler("Registration", {"Register": ("RegisterRequest", self._register)})
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix://{folder / 'kubelet.sock'}")
        self._server.start()

    def kill(self) -> None:
        for channel in self._channels:
            channel.close()
        self._server.stop(None).wait()

    def _register(self, request: Any, context: Any) -> Any:
        if self.refuses:
            context.abort(grpc.StatusCode.UNKNOWN, self.refuses)
        assert (request.version, request.options.get_preferred_allocation_available) == ("v1beta1", True)
        endpoint = self.folder / request.endpoint
        self.endpoints[request.resource_name] = endpoint
        assert self.call(request.resource_name, "GetDevicePluginOptions", "Empty", "DevicePluginOptions")
        with self._news:
            self.registrations.append(request.resource_name)
        if request.resource_name not in self.deaf_to:
            channel = self._followed[request.resource_name] = grpc.insecure_channel(f"unix://{endpoint}")
            self._channels.append(channel)
            threading.Thread(target=self._follow, args=(request.resource_name, channel), daemon=True).start()
        return messages["Empty"]()

    def _follow(self, resource: str, channel: Any) -> None:
        stream = channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages["ListAndWatchResponse"].FromString,
        )
        try:
            for answer in stream(messages["Empty"]()):
                with self._news:
                    self.shares[resource] = {device.ID: device.health for device in answer.devices}
                    self._news.notify_all()
        except (grpc.RpcError, ValueError):
            pass  # the plugin has gone, or this kubelet
        self.notices.wait(20)
        if (last := self._followed.pop(resource, None)) is not None:
            last.close()
        with self._news:
            self.shares.pop(resource, None)
            self._news.notify_all()

    def call(self, resource: str, method: str, request: str, response: str, **fields: Any) -> Any:
        with grpc.insecure_channel(f"unix://{self.endpoints[resource]}") as channel:
            made = channel.unary_unary(
                f"/v1beta1.DevicePlugin/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=messages[response].FromString,
            )
            return made(messages[request](**fields), timeout=10)

    def allocate(self, resource: str, *ids: str) -> list[str]:
        """Device nodes that a container with these shares gets."""
        answer = self.call(
            resource, "Allocate", "AllocateRequest", "AllocateResponse", container_requests=[{"devices_ids": ids}]
        )
        (container,) = answer.container_responses
        assert all(node.host_path == node.container_path for node in container.devices)
        return [node.host_path for node in container.devices]

    def healthy(self) -> dict[str, int]:
        with self._news:
            return {name: sum(one == "Healthy" for one in shares.values()) for name, shares in self.shares.items()}

    def wait_for(self, healthy: dict[str, int]) -> None:
        """Wait until exactly these shares of each resource are healthy."""
        deadline = time.monotonic() + 20
        with self._news:
            while self.healthy() != healthy:
                assert self._news.wait(max(0.0, deadline - time.monotonic())), f"{self.healthy()}, not {healthy}"
