"""Addresses inside a cluster: every node has its own, and a range of its own for its pods."""

import ipaddress
from itertools import combinations

from cotenant_local.host.addresses import Addresses

NODES = range(200)


def test_nodes_are_on_the_lan_beside_the_control_plane_and_no_two_share_an_address() -> None:
    found = [ipaddress.ip_address(Addresses.node(index)) for index in NODES]
    assert len({*found, ipaddress.ip_address(Addresses.CONTROL_PLANE)}) == len(found) + 1
    assert all(address in Addresses.LAN for address in found)


def test_each_node_has_a_range_of_the_pods_range_and_none_touches_another_or_the_services() -> None:
    ranges = [ipaddress.IPv4Network(Addresses.pods(index)) for index in NODES]
    assert all(one.subnet_of(ipaddress.IPv4Network(Addresses.PODS)) for one in ranges)
    others = [Addresses.LAN, ipaddress.IPv4Network(Addresses.SERVICES)]
    assert not any(one.overlaps(other) for one, other in combinations([*ranges, *others], 2))


def test_the_addresses_of_services_are_in_their_range() -> None:
    services = ipaddress.ip_network(Addresses.SERVICES)
    assert all(ipaddress.ip_address(one) in services for one in (Addresses.API_SERVICE, Addresses.DNS_SERVICE))
