"""Host ports: the node's address and a port lead to a pod's port, by one nftables table that is written as a whole.

Works on the node's addresses, not on 127.0.0.1 (that needs route_localnet, which would open loopback to pods).
"""

import shutil
from collections.abc import Iterable
from typing import Final

from cotenant_local.host.addresses import is_v6
from cotenant_local.runtime.containers.sandboxes import Sandbox
from cotenant_local.runtime.interface import proto
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from cotenant_local.runtime.isolation.pod_network import run_script

TABLE: Final = "cotenant-hostports"
HostPort = tuple[str, str, int]
"""Protocol, address ("" for all of the node's), port of the node."""


def ports(sandbox: Sandbox) -> dict[HostPort, int]:
    """Ports of the node → ports of the pod; none for a pod in the node's own network."""
    if sandbox.host_network:
        return {}
    wanted = {}
    for mapping in sandbox.config.port_mappings:
        if mapping.host_port:
            address = "" if mapping.host_ip in {"0.0.0.0", "::"} else mapping.host_ip
            protocol = proto.pb.Protocol.Name(mapping.protocol).lower()
            wanted[protocol, address, mapping.host_port] = mapping.container_port
    return wanted


def check(new: Sandbox, others: Iterable[Sandbox]) -> None:
    """Raises UnsupportedError when another pod of the node has the port, or nothing could forward it."""
    wanted = ports(new)
    if wanted and not shutil.which("nft"):
        raise UnsupportedError("hostPort needs the program nft; on Debian or Ubuntu: sudo apt-get install nftables")
    for _, address, port in wanted:
        if is_v6(address):
            raise UnsupportedError(f"hostPort {port} on {address}: host ports work with IPv4 alone here")
    for other in others:
        for protocol, address, port in ports(other):
            if any(p == protocol and n == port and (not a or not address or a == address) for p, a, n in wanted):
                raise UnsupportedError(f"hostPort {port}/{protocol} is taken by pod {other.config.metadata.name}")


def rules(sandboxes: Iterable[Sandbox]) -> str:
    """The whole table for these pods."""
    lines, hairpins = [], []
    for sandbox in sandboxes:
        for (protocol, address, port), target in ports(sandbox).items():
            here = f"ip daddr {address}" if address else "fib daddr type local ip daddr != 127.0.0.0/8"
            lines.append(f"  {here} {protocol} dport {port} dnat to {sandbox.address}:{target}")
            hairpins.append(f"  ip saddr {sandbox.address} ip daddr {sandbox.address} masquerade")
    flow, back = "\n".join(lines), "\n".join(sorted(set(hairpins)))
    return (
        f"table ip {TABLE} {{}}\ndelete table ip {TABLE}\ntable ip {TABLE} {{\n"
        f" chain incoming {{ type nat hook prerouting priority -100;\n{flow}\n }}\n"
        f" chain local {{ type nat hook output priority -100;\n{flow}\n }}\n"
        f" chain hairpin {{ type nat hook postrouting priority 100;\n{back}\n }}\n}}\n"
    )


async def write(sandboxes: Iterable[Sandbox]) -> None:
    await run_script(["nft", "-f", "-"], rules(sandboxes))
