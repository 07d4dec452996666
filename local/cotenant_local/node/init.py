"""The first process of one node (PID 1 of its own PID namespace): its places, its network, its runtime and kubelet.

`python -m cotenant_local.node.init STATE NAME CHANNEL`. Killing it ends everything on the node, as pulling the plug
would. Paths are the usual ones (/var/lib/kubelet, /var/log/pods, /run): each node has its own.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Final

from cotenant_local.controlplane import network
from cotenant_local.host.cluster_folder import VOLUMES, ClusterFolder
from cotenant_local.host.cluster_plan import ClusterPlan, NodePlan
from cotenant_local.host.json_lines import JsonLines
from cotenant_local.host.mounts import bind, overlay_folder, share
from cotenant_local.host.patience import Patience
from cotenant_local.host.processes import Death, Processes, Service
from cotenant_local.node import components, fake_chown, simulated_resources
from cotenant_local.runtime.interface import config
from cotenant_local.runtime.interface.config import RuntimeConfig
from cotenant_local.runtime.isolation.id_map import IdMap

RUN = Path("/run/cotenant")
SOCKET_DEADLINE_S: Final = 30.0
REPORT_INTERVAL_S: Final = 3.0


class NodeInit:
    def __init__(self, state: ClusterFolder, plan: ClusterPlan, own: NodePlan, channel: JsonLines) -> None:
        self.state, self.plan, self.own, self.channel = state, plan, own, channel
        self.processes = Processes(self.on_death)
        self.logs = state.logs / own.name

    def on_death(self, death: Death) -> None:
        self.channel.send(note=death.describe(), components=self.processes.status())
        asyncio.get_running_loop().call_later(1.0, self.report)

    def report(self) -> None:
        self.channel.send(components=self.processes.status())

    async def report_periodically(self) -> None:
        """Reports every few seconds: a process that is stopped by a signal sends no event."""
        while True:
            self.report()
            await asyncio.sleep(REPORT_INTERVAL_S)

    async def up(self) -> None:
        self.channel.send(hello=True)
        if await self.channel.receive() is None:
            return
        network.node(self.plan.addresses, self.own, tuple(other for other in self.plan.nodes if other != self.own))
        socket.sethostname(self.own.name)
        self.mount_node_folders()
        self.write_configuration()
        self.start(
            "runtime", [str(self.plan.python), "-m", "cotenant_local.runtime", "--config", str(RUN / "cri.json")]
        )
        self.start("kube-proxy", components.proxy(self.plan))
        await wait_for_socket(Path(components.CRI_SOCKET))
        kubelet = fake_chown.wrap(components.kubelet(self.plan, self.own), IdMap.here())
        self.start("kubelet", simulated_resources.wrap(kubelet, self.own))
        reporting = asyncio.create_task(self.report_periodically())
        while await self.channel.receive() is not None:
            pass
        reporting.cancel()

    def start(self, name: str, argv: list[str]) -> None:
        self.processes.start(Service(name, tuple(argv), self.logs / f"{name}.log"))

    def mount_node_folders(self) -> None:
        """/run is new with every start, as after a reboot; /var/lib/kubelet is the node's disk and outlives it."""
        disk = self.state.node(self.own.name)
        shutil.rmtree(disk / "cri", ignore_errors=True)  # no container outlives the machine
        for folder in (disk / "kubelet", disk / "log", disk / "cri", self.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The state folder may lie below one of the places that are replaced: by its descriptor it stays reachable.
        places = {
            "/var/lib/kubelet": disk / "kubelet",
            "/var/lib/cotenant": disk / "cri",
            "/var/log/pods": disk / "log",
        }
        places[str(VOLUMES)] = self.state.volumes
        sources = {target: os.open(place, os.O_PATH | os.O_DIRECTORY) for target, place in places.items()}
        stage = disk / "stage"
        for place in (Path("/run"), Path("/var/lib"), Path("/var/log")):
            overlay_folder(place, stage)
        for target, source in sources.items():
            Path(target).mkdir(exist_ok=True)
            bind(Path(f"/proc/self/fd/{source}"), Path(target))
            os.close(source)
        Path("/var/log/containers").mkdir(exist_ok=True)
        shutil.rmtree(stage, ignore_errors=True)
        RUN.mkdir(mode=0o700)
        share(Path("/var/lib/kubelet"))

    def write_configuration(self) -> None:
        kubelet = components.kubelet_configuration(self.plan, self.state, self.own)
        (RUN / "kubelet.json").write_text(json.dumps(kubelet))
        (RUN / "kube-proxy.json").write_text(json.dumps(components.proxy_configuration(self.plan, self.own)))
        (RUN / "resolv.conf").write_text("")
        shutil.copyfile(self.state.config / f"kubelet-{self.own.name}.kubeconfig", RUN / "kubelet.kubeconfig")
        for name in ("kube-proxy", "network-policies"):
            shutil.copyfile(self.state.config / f"{name}.kubeconfig", RUN / f"{name}.kubeconfig")
        (RUN / "cri.json").write_text(config.dump(self.runtime_configuration()))

    def runtime_configuration(self) -> RuntimeConfig:
        parent = self.plan.cgroup_parent
        return RuntimeConfig(
            node=self.own.name,
            socket=Path(components.CRI_SOCKET),
            state_dir=Path("/var/lib/cotenant"),  # on a disk, which the kubelet measures
            pod_cidr=self.own.pod_cidr,
            node_address=self.own.address,
            catalogue=self.plan.catalogue,
            mtu=network.MTU,
            cgroup_parent=f"{parent}/{self.own.name}" if parent else None,
            gpu_driver=self.state.gpu_driver(self.own.name) if self.own.memory_limits else None,
            policy_kubeconfig=RUN / "network-policies.kubeconfig",
            dns_address=self.plan.addresses.control_plane,
        )


async def wait_for_socket(path: Path) -> None:
    """The kubelet gives up on a runtime that does not answer at once."""
    patience = Patience(SOCKET_DEADLINE_S)
    while not patience.exhausted():
        try:
            _, writer = await asyncio.open_unix_connection(path)
        except OSError:
            await asyncio.sleep(0.02)
            continue
        writer.close()
        return


def main() -> int:
    state, name, end = ClusterFolder(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
    plan = ClusterPlan.load(state.plan)
    own = next(node for node in plan.nodes if node.name == name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def run() -> None:
        await NodeInit(state, plan, own, await JsonLines.over(socket.socket(fileno=end))).up()

    asyncio.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
