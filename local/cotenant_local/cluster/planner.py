"""Turns a `ClusterSpec` into a `ClusterPlan`: names, addresses, ports, the Node objects.

The ports on 127.0.0.1 are taken here, before the sandbox exists: their listening sockets
belong to the outside and are handed in.
"""

import contextlib
import json
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant_local.cluster import quantities
from cotenant_local.cluster.spec import TAINT, ClusterSpec, NodeSpec
from cotenant_local.host.addresses import FAMILIES, Addresses
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.cluster_plan import ClusterPlan, NodePlan
from cotenant_local.host.errors import LocalError

SIMULATED_GPUS: Final = "cotenant.dev/simulated-gpus"
GPU_CLASS: Final = "cotenant.dev/gpu-class"
ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Prerequisites:
    """Folders and rights that are ready before a cluster is planned."""

    state: ClusterFolder
    programs: Path
    stubs: Path
    oldest: Path | None
    cgroup: str | None


def plan(name: str, spec: ClusterSpec, prerequisites: Prerequisites) -> tuple[ClusterPlan, list[socket.socket]]:
    """The plan and the listening sockets: the API server's first, then one per forward."""
    listeners = [_listen(spec.api_port or _previous_port(prerequisites.state))]
    listeners += [_listen(forward.port) for forward in spec.forwards]
    ports = [listener.getsockname()[1] for listener in listeners]
    disk = shutil.disk_usage(prerequisites.state.path).total
    nodes = tuple(_node(node, index, disk, FAMILIES[spec.ip_family]) for index, node in enumerate(spec.nodes))
    planned = ClusterPlan(
        name=name,
        programs=prerequisites.programs,
        stubs=prerequisites.stubs,
        oldest=prerequisites.oldest,
        python=Path(sys.executable),
        catalogue=prerequisites.state.catalogue,
        nodes=nodes,
        forwards=tuple((forward.service, port) for forward, port in zip(spec.forwards, ports[1:], strict=True)),
        api_port=ports[0],
        cgroup_parent=prerequisites.cgroup,
        ip_family=spec.ip_family,
    )
    return planned, listeners


def _node(node: NodeSpec, index: int, disk: int, addresses: Addresses) -> NodePlan:
    labels = dict(node.labels)
    annotations = dict(node.annotations)
    if node.zone:
        labels[ZONE] = node.zone
    if node.gpus:
        labels[GPU_CLASS] = node.gpus.gpu_class
        inventory = {"class": node.gpus.gpu_class, "memory": node.gpus.memory, "count": node.gpus.count}
        annotations[SIMULATED_GPUS] = json.dumps(inventory)
    pod_cidr = addresses.node_pods(index)
    spec: dict[str, Any] = {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]}
    if node.taints:
        spec["taints"] = [{k: v for k, v in _taint(taint).items() if v} for taint in node.taints]
    metadata = {"name": node.name, "labels": labels, "annotations": annotations}
    return NodePlan(
        name=node.name,
        address=addresses.node(index),
        pod_cidr=pod_cidr,
        pods=node.pods,
        cpu=node.cpu,
        memory_bytes=quantities.to_bytes(node.memory) if node.memory else None,
        withheld_bytes=_withheld(node, disk),
        manifest={"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec},
        resources=node.resources,
        memory_limits=node.gpus is not None and node.gpus.memory_limits,
    )


def _withheld(node: NodeSpec, disk: int) -> int:
    if node.ephemeral_storage is None:
        return 0
    asked = quantities.to_bytes(node.ephemeral_storage)
    if asked > disk:
        raise LocalError(
            f"node {node.name}: ephemeralStorage {node.ephemeral_storage} is more than the disk of the cluster's "
            f"folder has ({disk // 2**30}Gi); ask for less, or put the folder on a larger disk with --state."
        )
    return disk - asked


def _taint(text: str) -> dict[str, str]:
    match = TAINT.fullmatch(text)
    assert match is not None
    return match.groupdict()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise LocalError(f"port {port} on 127.0.0.1 cannot be used: {error.strerror}.") from error
    listener.listen(512)
    return listener


def _previous_port(state: ClusterFolder) -> int:
    """The port of the last run, if it is still free, so that the kubeconfig stays valid; else 0."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        port = ClusterPlan.load(state.plan).api_port
        with contextlib.suppress(LocalError):
            _listen(port).close()
            return port
    return 0
