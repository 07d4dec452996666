"""Pod addresses and links: one veth pair per pod, a route to one address on each side, fixed neighbours, no bridge.

The host's side of every pod has the same link-layer address; the pod's is made from its address, as is usual.
"""

import asyncio
import ipaddress
from collections.abc import Iterable
from typing import Final

from cotenant_local.host.addresses import is_v6
from cotenant_local.runtime.interface.config import RuntimeConfig

HOST_MAC: Final = "ee:ee:ee:ee:ee:ee"


class PodNetworkError(Exception):
    """A pod's network cannot be made; the message has the error output of `ip`."""


class PodAddressPool:
    """The addresses of the node's range, the longest unused first: an old answer of DNS then leads to no other pod."""

    def __init__(self, cidr: str, used: Iterable[str]) -> None:
        self.network = ipaddress.ip_network(cidr)
        self.used = {ipaddress.ip_address(address) for address in used}
        self.next = 1

    def allocate(self) -> str:
        usable = self.network.num_addresses - 2
        for _ in range(usable):
            address = self.network[self.next]
            self.next = self.next % usable + 1
            if address not in self.used:
                self.used.add(address)
                return str(address)
        raise PodNetworkError(f"all {usable} pod addresses of {self.network} are in use")

    def release(self, address: str) -> None:
        if address:
            self.used.discard(ipaddress.ip_address(address))


def link_name(sandbox: str) -> str:
    return "veth" + sandbox[:11]


def pod_mac(address: str) -> str:
    return "0a:58:" + ":".join(f"{byte:02x}" for byte in ipaddress.ip_address(address).packed[-4:])


async def connect(config: RuntimeConfig, sandbox: str, pid: int, address: str) -> None:
    """Wires the network namespace of process `pid` to the node."""
    link, mac = link_name(sandbox), pod_mac(address)
    gateway, whole, at_once = ("fe80::1", 128, " nodad") if is_v6(address) else ("169.254.1.1", 32, "")
    host = [
        f"link add {link} mtu {config.mtu} address {HOST_MAC} type veth "
        f"peer name eth0 mtu {config.mtu} address {mac} netns {pid}",
        f"link set {link} up",
        f"neigh replace {address} lladdr {mac} dev {link} nud permanent",
        f"route replace {address}/{whole} dev {link} src {config.node_address}",
    ]
    pod = [
        "link set lo up",
        f"address add {address}/{whole} dev eth0{at_once}",
        "link set eth0 up",
        f"neigh replace {gateway} lladdr {HOST_MAC} dev eth0 nud permanent",
        f"route add {gateway} dev eth0 scope link",
        f"route add default via {gateway} dev eth0 src {address}",
    ]
    await run_script(["ip", "-batch", "-"], "\n".join([*host, ""]))
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net"]
    await run_script([*inside, "ip", "-batch", "-"], "\n".join([*pod, ""]))


async def disconnect(sandbox: str) -> None:
    """Removes the pod's link; its route and neighbour go with it. No error when it is gone already."""
    process = await asyncio.create_subprocess_exec(
        "ip", "link", "delete", link_name(sandbox), stderr=asyncio.subprocess.DEVNULL
    )
    await process.wait()


async def run_script(command: list[str], script: str) -> None:
    """Runs a program that reads `script`; raises PodNetworkError with its error output."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate(script.encode())
    if process.returncode:
        raise PodNetworkError(f"{' '.join(command)}: {errors.decode(errors='replace').strip()}")
