"""Addresses inside a cluster, of one family. Light: the inits import it, and they should start at once."""

import ipaddress
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Addresses:
    """Every cluster has a network of its own, so all clusters of a family use the same."""

    lan: str
    services: str
    pods: str
    node_prefix: int
    """Length of the part of a pod's address that is its node's."""
    every_host: int
    """Length of a whole address."""

    @property
    def control_plane(self) -> str:
        return self._at(self.lan, 1)

    @property
    def api_service(self) -> str:
        """The first Service address, which Kubernetes gives to its own API Service."""
        return self._at(self.services, 1)

    @property
    def dns_service(self) -> str:
        return self._at(self.services, 10)

    def node(self, index: int) -> str:
        return self._at(self.lan, 10 + index)

    def node_pods(self, index: int) -> str:
        return f"{self._at(self.pods, (index + 1) << (self.every_host - self.node_prefix))}/{self.node_prefix}"

    def _at(self, network: str, index: int) -> str:
        return str(ipaddress.ip_network(network)[index])


FAMILIES: Final = {
    "IPv4": Addresses("10.89.0.0/24", "10.96.0.0/16", "10.244.0.0/16", node_prefix=24, every_host=32),
    "IPv6": Addresses("fd00:10:89::/112", "fd00:10:96::/112", "fd00:10:244::/96", node_prefix=112, every_host=128),
}


def is_v6(address: str) -> bool:
    """True if an address or a range is IPv6."""
    return ":" in address


def in_url(address: str) -> str:
    """The address as it stands before a port."""
    return f"[{address}]" if is_v6(address) else address


def of_packets(address: str) -> str:
    """How nftables calls the family of this address or range."""
    return "ip6" if is_v6(address) else "ip"
