"""The configuration of one node's runtime: a JSON file with the fields of `RuntimeConfig`, nothing else.

The runtime runs inside the cluster's sandbox: as a descendant of its PID 1 (which reaps orphans), in the sandbox's
network namespace, and in the *same mount namespace as its kubelet* (it binds the volumes that the kubelet mounts).
Forwarding is on and `lo` is up there; the supervisor puts the node's address on an interface beforehand.

Network: no bridge. Each pod has `eth0` with one address of `pod_cidr` and a default route to a link-local address. Its
other end is `veth<id>` in the sandbox's namespace, with a route to the pod's address. All traffic between pods is
routed, so `inet forward` sees it: kube-proxy (nftables) and network policies work without br_netfilter. Several nodes
share the sandbox's network namespace; their ranges must not overlap. The runtime owns `veth*` links and the pods'
routes only.

Readiness: the socket accepts connections. SIGTERM ends the runtime and leaves containers running (a restart finds them
by `state_dir`). The kubelet's settings that fit: `podLogsDir` inside the sandbox, `cgroupDriver: cgroupfs`,
`containerRuntimeEndpoint: unix://<socket>`.
"""

import ipaddress
import json
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any


class ConfigError(ValueError):
    """The configuration file cannot be used; the message names the file, the field and the reason."""


@dataclass(frozen=True)
class RuntimeConfig:
    node: str
    """The Node's name; used in messages and in cgroup names."""
    socket: Path
    """Unix socket of the CRI server (the runtime makes and replaces it)."""
    state_dir: Path
    """Made if missing. What a restart needs: one folder per sandbox and container. On a file system
    that allows unix sockets; keep the path short (<= 60 characters)."""
    pod_cidr: str
    """This node's range, for example "10.244.1.0/24"; every address but the first and the last is given out."""
    node_address: str
    """This node's address in the sandbox's network namespace; source address towards pods, target of host ports."""
    catalogue: Path
    """Image catalogue (JSON or YAML), see `images`."""
    log_file: Path | None = None
    """The runtime's own log; standard error when absent."""
    mtu: int = 65520
    """Everything stays on this machine, so large frames are free."""
    cgroup_parent: str | None = None
    """Below what this node may make cgroups: v2 a delegated folder, "/sys/fs/cgroup/cotenant/n1"; v1 the path below
    each controller's folder, "/cotenant/n1". None: no rights; limits are not enforced, and the log has a warning."""
    cdi_dirs: tuple[Path, ...] = (Path("/etc/cdi"), Path("/var/run/cdi"))
    gpu_driver: Path | None = None
    """Folder of a stand-in for NVIDIA's driver: GPU memory of containers of its runtime class is limited there."""
    policy_kubeconfig: Path | None = None
    """With it, NetworkPolicies are enforced: its user lists and watches pods, namespaces and networkpolicies. The file
    is JSON and has everything inside."""
    dns_address: str = ""
    """The cluster's name server, where it is not a pod: policies that name pods `k8s-app: kube-dns` then mean it."""


PATHS = ("socket", "state_dir", "catalogue", "log_file", "gpu_driver", "policy_kubeconfig")


def load(path: Path) -> RuntimeConfig:
    """Reads and checks the file; every error names the field."""
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as JSON: {error}") from error
    known = {field.name for field in fields(RuntimeConfig)}
    required = {f.name for f in fields(RuntimeConfig) if f.default is MISSING}
    if unknown := sorted(set(document) - known):
        raise ConfigError(f"{path}: unknown fields {unknown}; known are {sorted(known)}")
    if missing := sorted(required - set(document)):
        raise ConfigError(f"{path}: missing fields {missing}")
    for name in PATHS:
        if document.get(name) is not None:
            document[name] = Path(document[name])
    if "cdi_dirs" in document:
        document["cdi_dirs"] = tuple(Path(folder) for folder in document["cdi_dirs"])
    try:
        ipaddress.ip_network(document["pod_cidr"])
        ipaddress.ip_address(document["node_address"])
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return RuntimeConfig(**document)


def dump(config: RuntimeConfig) -> str:
    """The JSON document that `load` reads."""
    return json.dumps(asdict(config), default=str, indent=1)
