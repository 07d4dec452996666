"""The nodes as the supervisor sees them: machines that are switched on and off, frozen, and cut off.

Each is an init (`node`) in PID, network, mount, UTS and IPC namespaces of its own; killing it is pulling the plug.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant_local.controlplane import network
from cotenant_local.host import patience, procfs
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.cluster_plan import ClusterPlan, NodePlan
from cotenant_local.host.json_lines import JsonLines
from cotenant_local.host.processes import Death, Processes, Service

HELLO_DEADLINE_S: Final = 30.0
RESTART_PAUSE_S: Final = 1.0


class NodeError(Exception):
    """A request about a node that cannot be met; the message has the reason."""


@dataclass
class _NodeMachine:
    plan: NodePlan
    port: str
    power: str = "off"
    """on, off, or frozen"""
    isolated: bool = False
    components: dict[str, Any] = field(default_factory=dict)
    listening: asyncio.Task[None] | None = None
    ends: list[socket.socket] = field(default_factory=list)


class NodeMachines:
    def __init__(
        self,
        state: ClusterFolder,
        plan: ClusterPlan,
        processes: Processes,
        *,
        log: Callable[[str], None],
        on_start: Callable[[str], None],
    ) -> None:
        self._state, self._plan, self._processes = state, plan, processes
        self._log, self._on_start = log, on_start
        self._machines = {node.name: _NodeMachine(node, f"port{i}") for i, node in enumerate(plan.nodes)}
        self._restarts: set[asyncio.Task[None]] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._machines

    def pid(self, name: str) -> int | None:
        return self._processes.pid(name)

    def status(self) -> dict[str, dict[str, Any]]:
        return {
            name: {
                "power": machine.power,
                "stopped": machine.power == "on" and self._is_stopped(name),
                "isolated": machine.isolated,
                "address": machine.plan.address,
                "components": machine.components,
            }
            for name, machine in self._machines.items()
        }

    async def start(self, name: str) -> None:
        machine = self._find(name)
        here, there = socket.socketpair()
        namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        init = [self._plan.python, "-m", "cotenant_local.node.init", self._state.path, name, there.fileno()]
        self._state.node(name).mkdir(mode=0o700, parents=True, exist_ok=True)
        argv = tuple(map(str, ["unshare", *namespaces, *init]))
        log = self._state.logs / f"{name}.log"
        self._processes.start(Service(name, argv, log, (there.fileno(),), restart=False))
        there.close()
        channel = await JsonLines.over(here)
        machine.power = "on"
        try:
            hello = await asyncio.wait_for(channel.receive(), patience.stretched(HELLO_DEADLINE_S))
        except TimeoutError:
            self._processes.kill(name)  # as a machine that hangs at its start: it is switched off and on again
            hello = None
        pid = self._processes.pid(name)
        if hello is None or pid is None:
            return  # its death is on its way to `on_death`
        network.plug(machine.port, pid, machine.plan)
        channel.send(go=True)
        self._on_start(name)
        machine.listening = asyncio.create_task(self._listen(machine, channel))

    async def _listen(self, machine: _NodeMachine, channel: JsonLines) -> None:
        while (message := await channel.receive()) is not None:
            if "note" in message:
                self._log(f"{machine.plan.name}: {message['note']}")
            machine.components = message.get("components", machine.components)
        await channel.close()

    def on_death(self, death: Death) -> None:
        """The node's init died. Unless it was stopped on purpose, the machine starts again, as by a watchdog."""
        machine = self._machines[death.service]
        machine.components = {}
        network.unplug(machine.port)
        if machine.power == "on":
            restart = asyncio.create_task(self._start_later(death.service))
            self._restarts.add(restart)
            restart.add_done_callback(self._restarts.discard)

    async def _start_later(self, name: str) -> None:
        await asyncio.sleep(RESTART_PAUSE_S)
        if self._machines[name].power == "on":
            await self.start(name)

    def stop(self, name: str) -> None:
        """Pulls the plug: everything on the node dies at once; its disk stays."""
        machine = self._find(name)
        machine.power = "off"
        machine.components = {}
        self._processes.remove(name)
        network.unplug(machine.port)

    def freeze(self, name: str) -> None:
        if self._find(name).power == "off":
            raise NodeError(f"{name} is stopped; nothing runs there that could be frozen.")
        self._signal_all(name, signal.SIGSTOP)
        self._machines[name].power = "frozen"

    def isolate(self, name: str) -> None:
        self._find(name).isolated = True
        self._draw_boundary()

    async def restore(self, name: str) -> None:
        """Undoes whatever was done to the node."""
        machine = self._find(name)
        if machine.isolated:
            machine.isolated = False
            self._draw_boundary()
        if machine.power == "frozen":
            self._signal_all(name, signal.SIGCONT)
            machine.power = "on"
        if machine.power == "off":
            await self.start(name)

    def stop_all(self) -> None:
        for name, machine in self._machines.items():
            machine.power = "off"
            self._processes.remove(name)

    def _is_stopped(self, name: str) -> bool:
        pid = self._processes.pid(name)
        return pid is not None and procfs.any_stopped(pid)

    def _draw_boundary(self) -> None:
        network.isolate([machine.plan for machine in self._machines.values() if machine.isolated])

    def _find(self, name: str) -> _NodeMachine:
        if name not in self._machines:
            known = ", ".join(self._machines) or "none"
            raise NodeError(f"there is no node {name}; this cluster has {known}.")
        return self._machines[name]

    def _signal_all(self, name: str, number: signal.Signals) -> None:
        """Repeats until no new process appears, so that a process that forks meanwhile is signalled too."""
        root = self._processes.pid(name)
        done: set[int] = set()
        while root is not None and (found := set(procfs.descendants(root)) - done):
            for pid in found:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
            done |= found
