"""One node's runtime: everything that the services share, made once at start."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant_local.runtime.containers import host_ports, images
from cotenant_local.runtime.containers.container import Container, StateError
from cotenant_local.runtime.containers.containers import Containers
from cotenant_local.runtime.containers.sandboxes import Sandbox, Sandboxes
from cotenant_local.runtime.containers.usage import UsageMeter
from cotenant_local.runtime.interface.config import RuntimeConfig
from cotenant_local.runtime.policies.enforcer import PolicyEnforcer
from cotenant_local.runtime.shim.zygote_client import ZygoteClient
from cotenant_local.runtime.streaming.server import StreamServer

PROGRAMS = {"ip": "iproute2", "nsenter": "util-linux"}


class MissingProgramError(RuntimeError):
    """The machine lacks a program; the message names its package."""


@dataclass
class NodeRuntime:
    """The parts, by name."""

    config: RuntimeConfig
    zygote: ZygoteClient
    catalogue: images.ImageCatalogue
    sandboxes: Sandboxes
    containers: Containers
    streams: StreamServer
    meter: UsageMeter
    policies: PolicyEnforcer | None = None

    @classmethod
    def open(cls, config: RuntimeConfig) -> "NodeRuntime":
        for program, package in PROGRAMS.items():
            if not shutil.which(program):
                raise MissingProgramError(f"{program} is missing; on Debian or Ubuntu: sudo apt-get install {package}")
        config.state_dir.mkdir(parents=True, exist_ok=True)
        zygote = ZygoteClient()
        zygote.start()
        sandboxes = Sandboxes(config, zygote)
        containers, streams = Containers(config, zygote), StreamServer(zygote)
        node = cls(config, zygote, images.load(config.catalogue), sandboxes, containers, streams, UsageMeter())
        node.containers.recover()
        if config.policy_kubeconfig:
            known = sandboxes.all
            node.policies = PolicyEnforcer(config.policy_kubeconfig, config.dns_address, known.values)
            node.policies.start()
        return node

    def sandbox(self, name: str) -> Sandbox:
        if sandbox := self.sandboxes.find(name):
            return sandbox
        raise KeyError(f"pod sandbox {name} is not known to this node")

    def container(self, name: str) -> Container:
        if container := self.containers.find(name):
            return container
        raise KeyError(f"container {name} is not known to this node")

    async def run_sandbox(self, config: Any, handler: str) -> Sandbox:
        sandbox = await self.sandboxes.run(config, handler)
        try:
            if host_ports.ports(sandbox):
                others = [other for other in self.sandboxes.all.values() if other.ready and other is not sandbox]
                host_ports.check(sandbox, others)
                await host_ports.write([*others, sandbox])
            if self.policies:
                await self.policies.admit(sandbox)
        except BaseException:
            await self.remove_sandbox(sandbox)
            raise
        return sandbox

    def create(self, config: Any, sandbox: Sandbox) -> Container:
        """Creates a container in a sandbox. Raises UnsupportedError for requests that cannot be honoured."""
        image = self.catalogue.find(config.image.image)
        if image is None:
            raise KeyError(self.catalogue.pull_error(config.image.image))
        if not sandbox.ready:
            raise StateError(f"pod sandbox {sandbox.id} is not running")
        return self.containers.create(config, sandbox, image)

    async def stop_sandbox(self, sandbox: Sandbox) -> None:
        for container in self.containers.of(sandbox):
            await self.containers.stop(container, 0)
        held = sandbox.ready and host_ports.ports(sandbox)
        await self.sandboxes.stop(sandbox)
        if held:
            await host_ports.write([other for other in self.sandboxes.all.values() if other.ready])

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        await self.stop_sandbox(sandbox)
        for container in self.containers.of(sandbox):
            await self.containers.remove(container)
        self.containers.cgroups.remove(sandbox.cgroup)
        self.sandboxes.remove(sandbox)

    def storage(self) -> Path:
        return self.config.state_dir
