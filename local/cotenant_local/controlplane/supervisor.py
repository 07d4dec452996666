"""The first process of a cluster's sandbox (PID 1): brings the cluster up, keeps it up, and takes all of it along.

`python -m cotenant_local.controlplane.supervisor STATE LIFELINE API_LISTENER [SERVICE_LISTENER ...]`; the last ones are
inherited descriptors. Progress of the start goes up the lifeline; requests come through the control socket. When this
process ends, for whatever reason, the kernel ends every other one of the cluster.
"""

import asyncio
import functools
import json
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cotenant_local.controlplane import bootstrap, components, network
from cotenant_local.controlplane.connection_hold import ConnectionHold
from cotenant_local.controlplane.control_socket import ControlServer
from cotenant_local.controlplane.node_machines import NodeMachines
from cotenant_local.host.api_client import Api, ApiError
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.cluster_plan import ClusterPlan, NodePlan
from cotenant_local.host.json_lines import JsonLines
from cotenant_local.host.patience import Patience
from cotenant_local.host.processes import Death, Processes, Service

API_DEADLINE_S, NODE_DEADLINE_S = 90.0, 120.0
"""Seconds of an idle machine (`Patience`)."""
POLL_S: Final = 0.1


class StartError(Exception):
    """The cluster does not come up; the message is for the user of `up`."""


class Supervisor:
    def __init__(self, state: ClusterFolder, lifeline: JsonLines, listeners: list[int]) -> None:
        self.state, self.plan = state, ClusterPlan.load(state.plan)
        self.lifeline, self.listeners = lifeline, listeners
        self.processes = Processes(self.on_death)
        self.api = Api.from_pki("127.0.0.1", components.API_PORT, state.pki)
        self.connection_hold = ConnectionHold(self.api, self.plan.addresses.control_plane, self.log)
        self.machines = NodeMachines(
            self.state, self.plan, self.processes, log=self.log, on_start=self.forward_services
        )
        self.ready = False
        self.started = time.time()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stopped = asyncio.Event()

    def log(self, line: str) -> None:
        print(time.strftime("%H:%M:%S"), line, file=sys.stderr, flush=True)

    def on_death(self, death: Death) -> None:
        self.log(death.describe())
        if death.service == "kube-apiserver":
            self.connection_hold.hold()
        if death.service in self.machines:
            self.machines.on_death(death)
        if not self.ready and not self.failure.done():
            self.failure.set_exception(StartError(death.describe()))

    async def up(self) -> None:
        """Starts everything in order. Raises StartError if a component does not come up in time."""
        begun = time.monotonic()
        # 1. The LAN, the store, the API server.
        network.control_plane(self.plan.addresses)
        self.start("etcd", components.etcd(self.plan, self.state))
        self.start("kube-apiserver", components.apiserver(self.plan, self.state))
        self.lifeline.send(progress="starting etcd and the API server")
        await self.wait_until(self.api.ready, API_DEADLINE_S, "the API server to be ready")
        self.lifeline.send(progress=f"API server ready after {time.monotonic() - begun:.1f} s")
        # 2. What works through the API server: controllers, scheduler, the way in from outside, metrics.
        self.start("kube-controller-manager", components.controller_manager(self.plan, self.state))
        self.start("kube-scheduler", components.scheduler(self.plan, self.state))
        self.forward_api(components.API_PORT)
        measured = not self.plan.oldest  # it has no nodes, and finds the API in Endpoints instead of slices of them
        if measured:
            self.start("metrics", components.metrics(self.plan, self.state))
        # 3. Rights, Services and the storage class, and the processes that need them.
        create = functools.partial(bootstrap.create_system_objects, self.api, self.state.pki, self.plan.addresses)
        await asyncio.to_thread(create, with_metrics=measured)
        self.start("coredns", components.dns(self.plan, self.state))
        self.start("volumes", components.volumes(self.plan, self.state))
        # 4. The nodes, all at once, each until its kubelet is ready.
        await asyncio.gather(*(self.start_node(node) for node in self.plan.nodes))
        for node in self.plan.nodes:
            ready = functools.partial(bootstrap.node_ready, self.api, node.name)
            await self.wait_until(ready, NODE_DEADLINE_S, f"node {node.name} to be ready")
            await asyncio.to_thread(bootstrap.set_extended_resources, self.api, node)
        # 5. What a client finds missing otherwise: the default account, the metrics API.
        await self.wait_until(self.has_default_account, API_DEADLINE_S, "service accounts")
        # An API group that is announced and does not answer disturbs kubectl and the deletion of namespaces.
        if measured:
            await self.wait_until(
                functools.partial(bootstrap.metrics_available, self.api), API_DEADLINE_S, "the metrics API"
            )
        self.ready = True
        self.lifeline.send(ready=True, seconds=round(time.monotonic() - begun, 1))
        self.log(f"ready after {time.monotonic() - begun:.1f} s")

    def forward_api(self, port: int) -> None:
        self.processes.remove("forward")
        argv = components.api_forward(self.plan, self.listeners[0], port)
        self.start("forward", argv, self.listeners[:1])

    def forward_services(self, node: str) -> None:
        """Restarts the forwards of Services, which lead through the first node, whenever that starts."""
        pid = self.machines.pid(node)
        if not self.plan.forwards or node != self.plan.nodes[0].name or pid is None:
            return
        self.processes.remove("forward-services")
        argv = components.service_forwards(self.plan, self.listeners[1:], pid)
        self.start("forward-services", argv, self.listeners[1:])

    def set_api_faults(self, faults: dict[str, Any] | None) -> None:
        """Puts a faulty API server before clients outside and pods; the components of the cluster do not meet it."""
        self.processes.remove("apifaults")
        if faults is not None:
            self.state.api_faults.write_text(json.dumps(faults))
            self.start("apifaults", components.api_faults(self.plan, self.state))
        port = None if faults is None else components.FAULTY_PORT
        network.divert_api(self.plan.addresses, port)
        self.forward_api(port or components.API_PORT)
        self.log(f"API faults: {faults or 'none'}")

    async def start_node(self, node: NodePlan) -> None:
        await asyncio.to_thread(bootstrap.create_node, self.api, node)
        await self.machines.start(node.name)

    def has_default_account(self) -> bool:
        """The first object that only a working controller manager makes; without it no pod is admitted."""
        return bool(self.api.call("GET", "/api/v1/namespaces/default/serviceaccounts")["items"])

    def start(self, name: str, argv: list[str], pass_fds: list[int] | None = None) -> None:
        log = self.state.logs / f"{name}.log"
        self.processes.start(Service(name, tuple(argv), log, tuple(pass_fds or ())))

    async def wait_until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        """Waits for a condition. If a component dies meanwhile, raises with the end of its log."""
        patience = Patience(seconds)
        answer = ""
        while True:
            try:
                if await asyncio.to_thread(holds):
                    return
            except (ApiError, OSError) as error:
                answer = f" (the last answer was {error})"
            if self.failure.done():
                self.failure.result()
            if patience.exhausted():
                raise StartError(f"waited {patience} for {what}{answer}; the logs are in {self.state.logs}")
            await asyncio.sleep(POLL_S)

    async def node(self, action: str, name: str) -> None:
        """Carries out a fault, or its end: `cotenant local node ACTION NAME`."""
        if action == "restore":
            await self.machines.restore(name)
        else:
            {"stop": self.machines.stop, "freeze": self.machines.freeze, "isolate": self.machines.isolate}[action](name)
        self.log(f"{name}: {action}")

    def stop(self) -> None:
        self.stopped.set()

    async def down(self) -> None:
        self.log("stopping")
        self.processes.halt()
        self.machines.stop_all()
        for name in ("forward", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns"):
            self.processes.remove(name)
        await self.processes.stop("etcd", grace=5.0)

    def status(self) -> dict[str, Any]:
        return {
            "name": self.plan.name,
            "ready": self.ready,
            "since": self.started,
            "apiPort": self.plan.api_port,
            "limitsEnforced": self.plan.cgroup_parent is not None,
            "forwards": [list(forward) for forward in self.plan.forwards],
            "components": self.processes.status(),
            "apiFaults": "apifaults" in self.processes.status(),
            "nodes": self.machines.status(),
        }


async def follow_lifeline(lifeline: JsonLines, stop: Callable[[], None], log: Callable[[str], None]) -> None:
    """Stops the cluster when the process that started it ends, unless that detaches it first."""
    while (message := await lifeline.receive()) is not None:
        if message.get("detach"):
            await lifeline.close()
            return
    log("whoever started this cluster is gone")
    stop()


async def supervise(state: ClusterFolder, lifeline: JsonLines, listeners: list[int]) -> int:
    supervisor = Supervisor(state, lifeline, listeners)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop)
    following = asyncio.create_task(follow_lifeline(lifeline, supervisor.stop, supervisor.log))
    control = ControlServer(state.control, supervisor)
    await control.listen()
    rising, stopped = asyncio.create_task(supervisor.up()), asyncio.create_task(supervisor.stopped.wait())
    code = 0
    await asyncio.wait({rising, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if rising.done() and (error := rising.exception()):
        supervisor.log(f"cannot start: {error}")
        lifeline.send(failed=str(error))
        await lifeline.close()
        code = 1
    else:
        await stopped
    rising.cancel()
    following.cancel()
    control.close()
    await supervisor.down()
    return code


def main() -> int:
    state = ClusterFolder(Path(sys.argv[1]))
    end, *listeners = map(int, sys.argv[2:])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 1 << 20)), hard))

    async def run() -> int:
        return await supervise(state, await JsonLines.over(socket.socket(fileno=end)), listeners)

    return asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main())
