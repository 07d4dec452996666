"""The plan of a cluster: what `up` decided outside, as a file that the supervisor and the nodes' inits read inside.

It contains names and numbers; nothing is left to decide.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotenant_local.host.addresses import FAMILIES, Addresses
from cotenant_local.host.cluster_folder import write_secret


@dataclass(frozen=True)
class NodePlan:
    """One node as the supervisor and the node's own init see it: names and numbers, nothing left to decide."""

    name: str
    address: str
    pod_cidr: str
    pods: int
    cpu: int | None
    memory_bytes: int | None
    withheld_bytes: int
    """How much of the disk the node does not offer."""
    manifest: dict[str, Any]
    """The Node object that is made before its kubelet starts: labels, taints, annotations, range of pod addresses."""
    resources: dict[str, int]
    memory_limits: bool = False
    """The runtime limits GPU memory on a stand-in for the driver."""


@dataclass(frozen=True)
class ClusterPlan:
    """The decisions of `up`, outside, for the supervisor inside."""

    name: str
    programs: Path
    stubs: Path
    oldest: Path | None
    """Where the control plane comes from instead, when it is to be of the oldest version."""
    python: Path
    catalogue: Path
    nodes: tuple[NodePlan, ...]
    forwards: tuple[tuple[str, int], ...]
    """(NAMESPACE/NAME:PORT, port on 127.0.0.1)"""
    api_port: int
    cgroup_parent: str | None
    ip_family: str = "IPv4"

    @property
    def addresses(self) -> Addresses:
        return FAMILIES[self.ip_family]

    def save(self, path: Path) -> None:
        write_secret(path, json.dumps(asdict(self), default=str, indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> "ClusterPlan":
        document = json.loads(path.read_text())
        nodes = tuple(NodePlan(**node) for node in document.pop("nodes"))
        forwards = tuple((service, port) for service, port in document.pop("forwards"))
        paths = {key: Path(document.pop(key)) for key in ("programs", "stubs", "python", "catalogue")}
        oldest = document.pop("oldest", None)  # absent from plans of earlier versions
        return cls(nodes=nodes, forwards=forwards, oldest=Path(oldest) if oldest else None, **{**document, **paths})
