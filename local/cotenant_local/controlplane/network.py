"""The cluster's own network: a bridge that is the LAN between control plane and nodes, and routes to the pods.

Runs inside the network namespaces of the two inits. Pods are routed by their node's runtime; here are only
the machines' addresses. `isolate` is a fault: packets between a node and the API server vanish, as when a cable breaks.
"""

import subprocess
from pathlib import Path
from typing import Final

from cotenant_local.host.addresses import Addresses, is_v6, of_packets
from cotenant_local.host.cluster_plan import NodePlan

BRIDGE: Final = "lan0"
MTU: Final = 65520
"""Nothing leaves the machine, so frames may be large."""
ISOLATION_TABLE, DIVERSION_TABLE, HOLD_TABLE = "cotenant-faults", "cotenant-api", "cotenant-gate"


class ClusterNetworkError(Exception):
    """A network command failed; the message has the command and its error output."""


def control_plane(addresses: Addresses) -> None:
    _ip(
        "link set lo up",
        f"link add {BRIDGE} mtu {MTU} type bridge",
        _address(addresses, addresses.control_plane, BRIDGE),
        f"link set {BRIDGE} up",
    )
    _forward(addresses)


def plug(port: str, pid: int, node: NodePlan) -> None:
    """A cable from the bridge to the namespace of `pid`, and the way to that node's pods."""
    unplug(port)
    _ip(
        f"link add {port} mtu {MTU} type veth peer name eth0 mtu {MTU} netns {pid}",
        f"link set {port} master {BRIDGE} up",
        f"route replace {node.pod_cidr} via {node.address}",
    )


def unplug(port: str) -> None:
    """Removes the cable; it is gone already when the node's namespace is."""
    subprocess.run(["ip", "link", "del", port], capture_output=True, check=False)


def node(addresses: Addresses, own: NodePlan, others: tuple[NodePlan, ...]) -> None:
    _ip(
        "link set lo up",
        _address(addresses, own.address, "eth0"),
        "link set eth0 up",
        f"route add default via {addresses.control_plane}",
        *(f"route add {other.pod_cidr} via {other.address}" for other in others),
    )
    _forward(addresses)


def isolate(nodes: list[NodePlan]) -> None:
    """Exactly these nodes, and no others, are cut off from the API server in both directions."""
    chains = []
    if nodes:
        ip = of_packets(nodes[0].address)
        ranges = ", ".join(part for cut in nodes for part in (cut.address, cut.pod_cidr))
        chains = [
            f"chain input {{ type filter hook input priority 0; {ip} saddr {{ {ranges} }} tcp dport 6443 drop; }}",
            f"chain output {{ type filter hook output priority 0; {ip} daddr {{ {ranges} }} drop; }}",
        ]
    _replace_table(f"inet {ISOLATION_TABLE}", *chains)


def divert_api(addresses: Addresses, to_port: int | None) -> None:
    """Leads connections of pods to the API server to another port of it; None: to the real one."""
    ip = of_packets(addresses.pods)
    rule = f"{ip} saddr {addresses.pods} tcp dport 6443 redirect to :{to_port}"
    chain = f"chain prerouting {{ type nat hook prerouting priority dstnat; {rule}; }}"
    _replace_table(f"{ip} {DIVERSION_TABLE}", *([] if to_port is None else [chain]))


def hold_api(address: str, *, held: bool) -> None:
    """New connections to the API server wait, because their first packet is dropped. 127.0.0.1 is exempt."""
    ip = of_packets(address)
    rule = f"{ip} daddr {address} tcp dport 6443 tcp flags & (syn | ack) == syn drop"
    chain = f"chain input {{ type filter hook input priority 0; {rule}; }}"
    _replace_table(f"{ip} {HOLD_TABLE}", *([chain] if held else []))


def _address(addresses: Addresses, own: str, device: str) -> str:
    length = addresses.lan.partition("/")[2]
    return f"addr add {own}/{length} dev {device}{' nodad' if is_v6(own) else ''}"  # nobody else can have it


def _forward(addresses: Addresses) -> None:
    _sysctl("net/ipv6/conf/all/forwarding" if is_v6(addresses.lan) else "net/ipv4/ip_forward", "1")


def _ip(*lines: str) -> None:
    _run(["ip", "-batch", "-"], "\n".join(lines))


def _replace_table(table: str, *chains: str) -> None:
    """`table`: its family and name. Without chains there is none afterwards."""
    rules = [f"table {table}", f"delete table {table}"]
    if chains:
        rules += [f"table {table} {{", *chains, "}"]
    _run(["nft", "-f", "-"], "\n".join(rules))


def _run(command: list[str], script: str) -> None:
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterNetworkError(f"{' '.join(command)} said: {done.stderr.strip()}\nof:\n{script}")


def _sysctl(name: str, value: str) -> None:
    Path("/proc/sys", name).write_text(value)
