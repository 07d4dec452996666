"""Addresses inside a cluster. Light: the inits import it, and they should start at once."""

import ipaddress


class Addresses:
    """Fixed addresses and ranges. Every cluster has a network of its own, so all use the same."""

    LAN = ipaddress.ip_network("10.89.0.0/24")
    CONTROL_PLANE = "10.89.0.1"
    SERVICES = "10.96.0.0/16"
    API_SERVICE = "10.96.0.1"
    DNS_SERVICE = "10.96.0.10"
    PODS = "10.244.0.0/16"

    @classmethod
    def node(cls, index: int) -> str:
        return str(cls.LAN[10 + index])

    @classmethod
    def pods(cls, index: int) -> str:
        return f"10.244.{index + 1}.0/24"
