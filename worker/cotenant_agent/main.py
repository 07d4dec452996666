"""`python -m cotenant_agent`, the container's command: parses arguments, starts threads, and loops until SIGTERM. Also
`cotenant agent`.

Exit code 2, with one line on stderr: the arguments or the node do not allow it to run.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cotenant.api.scalars.taints import TOLERATES_ALL
from cotenant.contract.decoding.plain_log import PlainFormatter
from cotenant.names import AGENT_PORT, ANNOTATION_SIMULATED_GPUS, METRICS_PORT
from cotenant.serving.certificate import ServingCertificate
from cotenant_agent import http_server, metrics, probes
from cotenant_agent.agent import Agent
from cotenant_agent.devices.amd_smi import AmdSmi, AmdSmiSource
from cotenant_agent.devices.extended_resource import ExtendedResourceSource
from cotenant_agent.enforcement import memory_limits
from cotenant_agent.enforcement.attribution import HostProcesses, boot_time_in
from cotenant_agent.enforcement.container_cgroups import ContainerCgroups
from cotenant_agent.enforcement.kubelet_containers import KubeletContainers
from cotenant_agent.failures import Failures
from cotenant_agent.gpus import capabilities
from cotenant_agent.gpus.readings import AskedLimit, GpuSource, GpuSourceError
from cotenant_agent.gpus.sampler import GpuSampler, XidListener
from cotenant_agent.gpus.simulated import SimulatedSource
from cotenant_agent.reports import unreadable_gpus
from cotenant_agent.reports.gpunode_client import UNREACHABLE, GPUNodeClient, error_summary
from cotenant_agent.reports.metrics_access import MetricsAccess
from cotenant_agent.reports.node_view import NodeObserver
from cotenant_agent.reports.writers import Writer

if TYPE_CHECKING:
    from cotenant_agent.device_plugin.turns import PluginTurns
    from cotenant_agent.dra.turns import DriverTurns
    from cotenant_agent.mps.daemon_turns import MpsTurns

log = logging.getLogger("cotenant.agent")

RECONCILE_INTERVAL_S = 1.0
NODE_INTERVAL_S = 10.0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="cotenant agent", description="Publish this node's GPUs as a GPUNode.")
    made.add_argument("--node", default=os.environ.get("NODE_NAME", ""), help="this Node's name (default: $NODE_NAME)")
    made.add_argument("--simulate", action="store_true", help="GPUs from the Node's annotation, not from the driver")
    made.add_argument(
        "--devices",
        default="",
        metavar="RESOURCE,…",
        help="devices that the kubelet hands out whole as one of these extended resources; no driver is asked",
    )
    made.add_argument(
        "--amd-smi", default="", metavar="PROGRAM", help="AMD's amd-smi, for the live use of its GPUs (with --devices)"
    )
    made.add_argument("--host", type=Path, default=Path("/host"), help="where parts of the host are mounted read-only")
    made.add_argument("--runtime-class", default="nvidia", help="the RuntimeClass that brings GPUs into pods")
    made.add_argument(
        "--worker-tolerations",
        type=json.loads,
        default=TOLERATES_ALL,
        metavar="JSON",
        help="tolerations of worker pods; a node whose taint keeps them away is shown as Tainted (default: all)",
    )
    made.add_argument(
        "--toolkit-version",
        default="",
        metavar="VERSION",
        help="of the NVIDIA container toolkit, where it is not a package of Debian's",
    )
    made.add_argument("--listen", default=f":{AGENT_PORT}", metavar="[ADDRESS]:PORT", help="for /healthz and /readyz")
    made.add_argument("--metrics-listen", default=f":{METRICS_PORT}", metavar="[ADDRESS]:PORT", help="for /metrics")
    made.add_argument(
        "--metrics-readers",
        choices=["authorized", "everybody"],
        default="authorized",
        help="who may read /metrics: accounts that may get that URL, or everybody",
    )
    made.add_argument(
        "--metrics-certificate", type=Path, metavar="FOLDER", help="tls.crt and tls.key for /metrics (default: no TLS)"
    )
    made.add_argument(
        "--dra", action="store_true", help="offer the GPUs for ResourceClaims, as a driver of the kubelet"
    )
    made.add_argument(
        "--device-plugin", action="store_true", help="offer shares of the GPUs to the kubelet, as extended resources"
    )
    made.add_argument(
        "--kubelet",
        type=Path,
        default=Path("/var/lib/kubelet"),
        metavar="FOLDER",
        help="the kubelet's (with --dra and --device-plugin)",
    )
    made.add_argument(
        "--cdi", type=Path, default=Path("/var/run/cdi"), metavar="FOLDER", help="for CDI specifications (with --dra)"
    )
    made.add_argument(
        "--mps",
        type=Path,
        metavar="FOLDER",
        help="hold shares of compute by MPS, whose daemons are kept in this folder (with --dra)",
    )
    made.add_argument(
        "--no-dcgm-names",
        dest="dcgm_names",
        action="store_false",
        help="no metrics under the names of NVIDIA's DCGM exporter, where that runs too",
    )
    made.add_argument("--poll", type=float, default=2.0, metavar="SECONDS", help="between two looks at the GPUs")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    address, metrics_address = address_of(args.listen), address_of(args.metrics_listen)
    if not args.node or address is None or metrics_address is None:
        return exit_refused("give --node NAME (or NODE_NAME) and --listen [ADDRESS]:PORT")
    stop, failures = threading.Event(), Failures()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        cluster = GPUNodeClient(args.node, failures)
        source = opened(args, cluster)
        observer = make_observer(args, cluster, source)
    except (GpuSourceError, *UNREACHABLE) as error:
        return exit_refused(str(error) if isinstance(error, GpuSourceError) else error_summary(error))
    booted_at = boot_time_in(Path("/proc/stat").read_text())
    writer = Writer(args.devices or "nvidia", socket.gethostname())
    agent = Agent(
        cluster,
        observer,
        booted_at=booted_at,
        contained=failures,
        node=args.node,
        writer=writer,
        tolerations=args.worker_tolerations,
    )
    servers = [http_server.serve(address, probes.paths(agent)), serve_metrics(agent, metrics_address, args)]
    cgroups = ContainerCgroups(args.host / "sys/fs/cgroup")
    asked = partial(asked_limits, cluster, cgroups)
    sampler = GpuSampler(source, stop, failures, every_s=args.poll, asked=asked)
    events = XidListener(source, stop, failures)
    threading.Thread(target=cluster.watch_pods, args=(stop,), name="pods", daemon=True).start()
    agent.resets.start = sampler.ask_reset
    sampler.start()
    events.start()
    driver = dra_turns(args, cluster, observer, failures, stop) if args.dra and not args.devices else None
    plugin = plugin_turns(args, cluster, observer, failures) if args.device_plugin and not args.devices else None
    compute = mps_turns(args, driver, observer, failures) if args.mps and driver is not None else None
    if compute is not None:
        threading.Thread(target=compute.look, args=(stop,), name="mps", daemon=True).start()
    of_kubelet = [turns for turns in (driver, plugin, compute) if turns is not None]
    while not stop.wait(RECONCILE_INTERVAL_S):
        agent.turn(sampler.latest, events.drain(), time.time())
        for turns in of_kubelet:
            turns.turn(agent.view)
    for turns in of_kubelet:
        turns.stop()
    for server in servers:
        server.shutdown()
    log.info("stopped")
    return 0


def asked_limits(cluster: GPUNodeClient, cgroups: ContainerCgroups) -> tuple[AskedLimit, ...]:
    """Limits that pods of this node ask for and whose containers run."""
    pods = cluster.pods()
    return () if pods is None else memory_limits.asked(pods.grants.values(), cgroups.leaf)


def dra_turns(
    args: argparse.Namespace,
    cluster: GPUNodeClient,
    observer: NodeObserver,
    failures: Failures,
    stop: threading.Event,
) -> DriverTurns:
    from cotenant_agent.dra.driver import DriverFolders  # gRPC is loaded only where it is spoken
    from cotenant_agent.dra.turns import DriverTurns

    return DriverTurns(cluster.node, observer, DriverFolders(args.kubelet, args.cdi), failures, stop)


def mps_turns(args: argparse.Namespace, driver: DriverTurns, observer: NodeObserver, failures: Failures) -> MpsTurns:
    from cotenant_agent.mps.daemon_turns import MpsTurns
    from cotenant_agent.mps.namespaces import ComputeNamespaces

    driver.namespaces = namespaces = ComputeNamespaces(args.mps)
    return MpsTurns(namespaces, observer, failures)


def plugin_turns(
    args: argparse.Namespace, cluster: GPUNodeClient, observer: NodeObserver, failures: Failures
) -> PluginTurns:
    from cotenant_agent.device_plugin.turns import PluginTurns  # gRPC is loaded only where it is spoken

    return PluginTurns(cluster.node, observer, args.kubelet, failures)


def address_of(text: str) -> tuple[str, int] | None:
    address, _, port = text.rpartition(":")
    return (address.removeprefix("[").removesuffix("]"), int(port)) if port.isdigit() else None


def serve_metrics(agent: Agent, address: tuple[str, int], args: argparse.Namespace) -> ThreadingHTTPServer:
    access = MetricsAccess().access if args.metrics_readers == "authorized" else None
    certificate = (
        ServingCertificate(args.metrics_certificate, may_come_later=True) if args.metrics_certificate else None
    )
    return http_server.serve(address, metrics.paths(agent, access, dcgm_names=args.dcgm_names), certificate)


def exit_refused(why: str) -> int:
    sys.stderr.write(f"cotenant agent: {why}\n")
    return 2


def opened(args: argparse.Namespace, cluster: GPUNodeClient) -> GpuSource:
    """The source of GPUs. If the driver cannot be read, the GPUNode says why, and the agent does not start."""
    if args.simulate or args.devices:
        return open_source(args, cluster)
    try:
        with unreadable_gpus.told_if_hanging(cluster):
            return open_source(args, cluster)
    except GpuSourceError as error:
        # The RuntimeClass exists, because without it this pod would not run.
        why = unreadable_gpus.reason(str(error), capabilities.detect(args.host, runtime_class=True))
        unreadable_gpus.publish(cluster, why)
        raise GpuSourceError(why) from error


def open_source(args: argparse.Namespace, cluster: GPUNodeClient) -> GpuSource:
    if args.simulate:
        where = f"annotation {ANNOTATION_SIMULATED_GPUS} of Node {args.node}"
        log.warning("SIMULATED GPUs, from %s: no GPU of this machine is read or protected", where)
        return SimulatedSource(args.node, rate_limited(NODE_INTERVAL_S, lambda: simulated_annotation(cluster)), where)
    if args.devices:
        read = rate_limited(NODE_INTERVAL_S, lambda: node_of(cluster))
        offered = ExtendedResourceSource(args.node, args.devices.split(","), read)
        of_amd = args.amd_smi and offered.resource.startswith("amd.com/")
        return AmdSmiSource(offered, AmdSmi(args.amd_smi)) if of_amd else offered
    from cotenant_agent.gpus.nvml import NvmlSource

    return NvmlSource()


def node_of(cluster: GPUNodeClient) -> dict[str, Any]:
    try:
        return cluster.node()
    except UNREACHABLE as error:
        raise GpuSourceError(f"the Node cannot be read: {error_summary(error)}") from error


def simulated_annotation(cluster: GPUNodeClient) -> str:
    # A Node without the annotation has no GPUs, so class and memory are never read.
    none = '{"class": "none", "memory": "1Mi", "count": 0}'
    return (node_of(cluster)["metadata"].get("annotations") or {}).get(ANNOTATION_SIMULATED_GPUS, none) or none


T = TypeVar("T")


def rate_limited(seconds: float, read: Callable[[], T]) -> Callable[[], T]:
    """`read`, called no more often than this. In between, and while it fails, the last result is returned."""
    kept: list[tuple[float, T]] = []

    def answer() -> T:
        if not kept or time.monotonic() - kept[0][0] >= seconds:
            try:
                kept[:] = [(time.monotonic(), read())]
            except GpuSourceError:
                if not kept:
                    raise
        return kept[0][1]

    return answer


def make_observer(args: argparse.Namespace, cluster: GPUNodeClient, source: GpuSource) -> NodeObserver:
    """Detect what the node can do, once, at start."""
    processes = HostProcesses(args.host / "proc")
    readable = processes.readable()
    attributing = readable and processes.are_ours()
    inventory = source.inventory()
    if not (inventory.simulated or inventory.resource or attributing):
        log.warning("memory cannot be attributed to pods: %s", capabilities.NOT_ATTRIBUTING)
    found = capabilities.detect(
        args.host,
        runtime_class=cluster.runtime_class_exists(args.runtime_class),
        limits_readable=source.can_read_limits(),
        toolkit=args.toolkit_version,
    )
    log.info("node=%s gpus=%d %s", args.node, len(inventory.gpus), found)
    running = processes.running_pods if readable else KubeletContainers(cluster.node).running_pods
    return NodeObserver(inventory, found, owner=processes.owner, attributing=attributing, running=running)
