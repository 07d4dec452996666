"""The control socket of a cluster: requests from `cotenant local`, one JSON line each way per connection.

`request` is the outside half; the path may be longer than a socket address allows, so both halves go by way of a
descriptor of the folder.
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from cotenant_local.controlplane.network import ClusterNetworkError
from cotenant_local.controlplane.node_machines import NodeError
from cotenant_local.host import json_lines, procfs
from cotenant_local.host.errors import LocalError
from cotenant_local.host.json_lines import JsonLines

NODE_ACTIONS = ("stop", "freeze", "isolate", "restore")


class ControlledCluster(Protocol):
    """The cluster that requests act on: the supervisor."""

    def status(self) -> dict[str, Any]: ...
    def stop(self) -> None: ...
    def set_api_faults(self, faults: dict[str, Any] | None) -> None: ...
    async def node(self, action: str, name: str) -> None: ...


class ControlServer:
    def __init__(self, path: Path, cluster: ControlledCluster) -> None:
        self._path, self._cluster = path, cluster
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        listener = socket.socket(socket.AF_UNIX)
        self._path.unlink(missing_ok=True)
        with _short_address(self._path) as address:
            listener.bind(address)
        self._path.chmod(0o600)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener)

    def close(self) -> None:
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = JsonLines(reader, writer)
        try:
            message = await peer.receive()
            answer = await self._answer(message or {})
        except (NodeError, ClusterNetworkError, ValueError, KeyError) as error:
            answer = {"error": str(error)}
        peer.send(**answer)
        await peer.close()

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request.get("do"):
            case "status":
                return self._cluster.status()
            case "stop":
                self._cluster.stop()
                return {}
            case "faults":
                self._cluster.set_api_faults(request["faults"])
                return {}
            case "node" if request["action"] in NODE_ACTIONS:
                await self._cluster.node(request["action"], request["name"])
                return {}
            case other:
                raise ValueError(f"unknown request {other!r}")


def request(path: Path, timeout: float = 60.0, **message: Any) -> dict[str, Any]:
    """One request, one answer. Raises OSError if nothing listens, LocalError for a refusal or a timeout."""
    with socket.socket(socket.AF_UNIX) as client, _short_address(path) as address:
        client.settimeout(timeout)
        client.connect(address)
        first = _other_end(client)
        _refuse_stopped(first)
        try:
            client.sendall(json_lines.encode(**message))
            with client.makefile("rb") as answers:
                line = answers.readline()
        except TimeoutError as error:
            _refuse_stopped(first)
            raise LocalError(
                f"the cluster's first process, {first}, says nothing for {timeout:.0f} s: this machine is far too busy."
            ) from error
    if not line:
        raise ConnectionResetError("the cluster closed the connection without an answer")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise LocalError(answer["error"])
    return answer


def _refuse_stopped(first: int) -> None:
    if procfs.is_stopped(first):
        raise LocalError(f"the cluster's first process is stopped by a signal; it goes on with: kill -CONT {first}")


def peer(path: Path) -> int:
    """The PID, as seen from here, of the process that listens."""
    with socket.socket(socket.AF_UNIX) as client, _short_address(path) as address:
        client.connect(address)
        return _other_end(client)


def _other_end(client: socket.socket) -> int:
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", credentials)[0]
    return pid


@contextlib.contextmanager
def _short_address(path: Path) -> Iterator[str]:
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
