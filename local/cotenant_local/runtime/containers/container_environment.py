"""The environment of a container: facts of its node and its pod, which its spec is built with."""

from dataclasses import dataclass, field

from cotenant_local.runtime.isolation.cdi import ContainerEdits
from cotenant_local.runtime.isolation.container_cgroups import ContainerCgroup
from cotenant_local.runtime.isolation.id_map import IdMap


@dataclass(frozen=True)
class ContainerEnvironment:
    """Facts of the node and of the pod that a container starts in."""

    folder: str
    ids: IdMap
    sandbox_pid: int
    private_namespaces: tuple[str, ...]
    """The namespaces that the pod has for itself; the others are the node's, which every container starts in."""
    hostname: str
    address: str
    resolv_conf: str
    shm: str
    pid_namespace: str
    """"new", a path, or "" for the sandbox's own."""
    log_directory: str
    cgroup: ContainerCgroup | None = None
    devices: ContainerEdits = field(default_factory=ContainerEdits)
    """Of the CDI devices that the container was given."""
    handler: str = ""
    """The pod's runtime class, as the runtime names it."""
