"""Pods as the runtime sees them: a process that holds namespaces, an address, a folder. One owner, one event loop."""

import contextlib
import logging
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant_local.host import procfs
from cotenant_local.runtime.containers import disk_records
from cotenant_local.runtime.inside import syscalls
from cotenant_local.runtime.interface import field_support, proto
from cotenant_local.runtime.interface.config import RuntimeConfig
from cotenant_local.runtime.interface.unsupported import UnsupportedError, reject_user_namespace
from cotenant_local.runtime.isolation import nvidia, pod_network
from cotenant_local.runtime.shim.zygote_client import ZygoteClient

log = logging.getLogger(__name__)
SHM_BYTES = 64 << 20
HANDLERS = ("", "cotenant", nvidia.HANDLER)
SAFE_SYSCTLS = ("net.", "kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


@dataclass
class Sandbox:
    """One pod's sandbox. `pid` is 0 once it has stopped."""

    id: str
    folder: Path
    config: Any
    created_at: int
    hostname: str
    handler: str
    pid: int = 0
    pid_started: int = 0
    address: str = ""

    @property
    def cgroup(self) -> str:
        """Name of the pod's cgroup. It ends as the kubelet's do, by which agents know whose a process is."""
        return f"{self.id}-pod{self.config.metadata.uid}"

    @property
    def ready(self) -> bool:
        return self.pid != 0 and procfs.start_time(self.pid) == self.pid_started

    @property
    def options(self) -> Any:
        return self.config.linux.security_context.namespace_options

    @property
    def private_namespaces(self) -> tuple[str, ...]:
        return private_namespaces(self.config)

    @property
    def host_network(self) -> bool:
        return bool(self.options.network == proto.pb.NODE)

    @property
    def shm(self) -> Path:
        return self.folder / "shm"

    def request(self) -> dict[str, Any]:
        """The request to the zygote for the process that will hold the pod's namespaces."""
        sysctls = dict(self.config.linux.sysctls)
        return {"task": "pod", "namespaces": self.private_namespaces, "hostname": self.hostname, "sysctls": sysctls}

    def resolv_conf(self) -> str:
        dns = self.config.dns_config
        if not (dns.servers or dns.searches or dns.options):
            return Path("/etc/resolv.conf").read_text() if os.path.exists("/etc/resolv.conf") else ""
        lines = [f"nameserver {server}" for server in dns.servers]
        if dns.searches:
            lines.append("search " + " ".join(dns.searches))
        if dns.options:
            lines.append("options " + " ".join(dns.options))
        return "\n".join(lines) + "\n"

    def save(self) -> None:
        keep = ("created_at", "hostname", "handler", "pid", "pid_started", "address")
        disk_records.write(self.folder / "meta.json", {name: getattr(self, name) for name in keep})


def private_namespaces(config: Any) -> tuple[str, ...]:
    """Namespaces that the pod does not share with its node."""
    options, pb = config.linux.security_context.namespace_options, proto.pb
    net = options.network != pb.NODE
    ipc = options.ipc != pb.NODE
    pid = options.pid == pb.POD  # else each container has its own, or the node's
    return ("uts", *(["net"] if net else []), *(["ipc"] if ipc else []), *(["pid"] if pid else []))


def reject_unsupported(config: Any) -> None:
    """Raises UnsupportedError for requests that cannot be honoured."""
    field_support.reject_unknown(config, field_support.POD)
    reject_user_namespace(config.linux.security_context.namespace_options)
    own = private_namespaces(config)
    for name in config.linux.sysctls:
        if not name.startswith(SAFE_SYSCTLS) or (name.startswith("net.") and "net" not in own):
            raise UnsupportedError(f"sysctl {name} is not a pod's own: it would change the whole cluster")


class Sandboxes:
    def __init__(self, config: RuntimeConfig, zygote: ZygoteClient) -> None:
        self.config = config
        self.zygote = zygote
        self.folder = config.state_dir / "sandboxes"
        self.all: dict[str, Sandbox] = {}
        for folder, message, meta in disk_records.each(self.folder, proto.pb.PodSandboxConfig):
            self.all[folder.name] = Sandbox(folder.name, folder, message, **meta)
        used = [sandbox.address for sandbox in self.all.values() if sandbox.address]
        self.addresses = pod_network.PodAddressPool(config.pod_cidr, used)

    def find(self, name: str) -> Sandbox | None:
        return disk_records.find(self.all, name)

    async def run(self, config: Any, handler: str) -> Sandbox:
        reject_unsupported(config)
        if handler not in HANDLERS:
            raise UnsupportedError(f"runtime handler {handler!r} is not known; known are {', '.join(HANDLERS[1:])}")
        name = disk_records.new_id()
        hostname = config.hostname or self.config.node
        sandbox = Sandbox(name, self.folder / name, config, time.time_ns(), hostname, handler)
        disk_records.create(
            sandbox.folder, config, {"created_at": sandbox.created_at, "hostname": hostname, "handler": handler}
        )
        try:
            await self._start(sandbox)
        except BaseException:
            await self._tear_down(sandbox)
            disk_records.remove(sandbox.folder)
            raise
        self.all[name] = sandbox
        return sandbox

    async def _start(self, sandbox: Sandbox) -> None:
        waits, confirms = os.pipe()
        try:
            sandbox.pid = await self.zygote.call(sandbox.request(), [waits])
            await self._set_up(sandbox)
            sandbox.save()
            os.write(confirms, b"1")
        finally:
            os.close(waits)
            os.close(confirms)

    async def _set_up(self, sandbox: Sandbox) -> None:
        sandbox.pid_started = procfs.start_time(sandbox.pid) or 0
        if "ipc" in sandbox.private_namespaces:
            sandbox.shm.mkdir()
            syscalls.mount(
                "tmpfs", str(sandbox.shm), syscalls.MS_NOSUID | syscalls.MS_NODEV, f"mode=1777,size={SHM_BYTES}"
            )
        if "net" in sandbox.private_namespaces:
            sandbox.address = self.addresses.allocate()
            await pod_network.connect(self.config, sandbox.id, sandbox.pid, sandbox.address)

    async def stop(self, sandbox: Sandbox) -> None:
        """Releases the pod's resources after its containers have ended. Safe to repeat."""
        await self._tear_down(sandbox)
        sandbox.save()

    async def _tear_down(self, sandbox: Sandbox) -> None:
        if sandbox.ready:
            with contextlib.suppress(ProcessLookupError):
                os.kill(sandbox.pid, signal.SIGKILL)
        if sandbox.address:
            await pod_network.disconnect(sandbox.id)
            self.addresses.release(sandbox.address)
        if sandbox.shm.is_mount():
            syscalls.unmount(str(sandbox.shm))
        sandbox.pid, sandbox.address = 0, ""

    def remove(self, sandbox: Sandbox) -> None:
        disk_records.remove(sandbox.folder)
        self.all.pop(sandbox.id, None)
