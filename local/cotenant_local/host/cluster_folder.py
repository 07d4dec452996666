"""The folder of one cluster, file by file. Everybody who reads or writes in it goes through here."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotenant_local.host.private_files import write_secret

VOLUMES = Path("/var/lib/cotenant-volumes")
"""Where nodes see the folders of PersistentVolumes."""


@dataclass(frozen=True)
class ClusterFolder:
    path: Path

    @property
    def pki(self) -> Path:
        return self.path / "pki"

    @property
    def config(self) -> Path:
        return self.path / "config"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def etcd(self) -> Path:
        return self.path / "etcd"

    @property
    def kubeconfig(self) -> Path:
        """For people and tests outside: the API server by way of 127.0.0.1."""
        return self.path / "kubeconfig"

    @property
    def lock(self) -> Path:
        """Held (flock) by the sandbox as long as it lives: the kernel lets go of it when the last process dies."""
        return self.path / "lock"

    @property
    def volumes(self) -> Path:
        """One folder per PersistentVolume."""
        return self.path / "volumes"

    @property
    def control(self) -> Path:
        return self.path / "control.sock"

    @property
    def api_faults(self) -> Path:
        return self.path / "api-faults.json"

    @property
    def catalogue(self) -> Path:
        return self.path / "images.json"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    def node(self, name: str) -> Path:
        return self.path / "nodes" / name

    def prepare(self) -> None:
        for folder in (self.path, self.pki, self.config, self.logs, self.etcd, self.volumes):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


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


@dataclass(frozen=True)
class ClusterPlan:
    """What `up` decided outside, for the supervisor inside."""

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

    def save(self, path: Path) -> None:
        write_secret(path, json.dumps(asdict(self), default=str, indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> "ClusterPlan":
        document = json.loads(path.read_text())
        nodes = tuple(NodePlan(**node) for node in document.pop("nodes"))
        forwards = tuple((service, port) for service, port in document.pop("forwards"))
        paths = {key: Path(document.pop(key)) for key in ("programs", "stubs", "python", "catalogue")}
        oldest = document.pop("oldest", None)  # plans of earlier versions do not say
        return cls(nodes=nodes, forwards=forwards, oldest=Path(oldest) if oldest else None, **{**document, **paths})
