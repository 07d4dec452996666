"""The folder of one cluster, file by file: every reader and writer finds its paths here.

Secret files are readable by their owner only, and are written whole or not at all.
"""

import os
from dataclasses import dataclass
from pathlib import Path

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
        """Credentials for people and tests outside: the API server by way of 127.0.0.1."""
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

    def gpu_driver(self, node: str) -> Path:
        """Path of a node's stand-in for the GPU driver, the same inside the node and outside."""
        return self.node(node) / "gpu-driver"

    def prepare(self) -> None:
        for folder in (self.path, self.pki, self.config, self.logs, self.etcd, self.volumes):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_secret(path: Path, content: bytes) -> None:
    """Write the file whole or not at all, because an interrupted start must not leave half a key."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    unfinished.rename(path)
