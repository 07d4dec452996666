"""Addresses inside a cluster: every node has its own, and a range of its own for its pods."""

import ipaddress
from itertools import combinations

import pytest

from cotenant_local.host.addresses import FAMILIES, Addresses, in_url, of_packets

NODES = range(64)
BOTH = pytest.mark.parametrize("addresses", FAMILIES.values(), ids=FAMILIES)


@BOTH
def test_nodes_are_on_the_lan_beside_the_control_plane_and_no_two_share_an_address(addresses: Addresses) -> None:
    found = [ipaddress.ip_address(addresses.node(index)) for index in NODES]
    assert len({*found, ipaddress.ip_address(addresses.control_plane)}) == len(found) + 1
    assert all(address in ipaddress.ip_network(addresses.lan) for address in found)


@BOTH
def test_each_node_has_a_range_of_the_pods_range_and_none_touches_another_or_the_services(addresses: Addresses) -> None:
    ranges = [ipaddress.ip_network(addresses.node_pods(index)) for index in NODES]
    pods = ipaddress.ip_network(addresses.pods)
    assert all(one.network_address in pods and one.broadcast_address in pods for one in ranges)
    others = [ipaddress.ip_network(addresses.lan), ipaddress.ip_network(addresses.services)]
    assert not any(one.overlaps(other) for one, other in combinations([*ranges, *others], 2))


@BOTH
def test_the_addresses_of_services_are_in_their_range(addresses: Addresses) -> None:
    services = ipaddress.ip_network(addresses.services)
    assert all(ipaddress.ip_address(one) in services for one in (addresses.api_service, addresses.dns_service))


@pytest.mark.parametrize(
    ("address", "before_a_port", "family"), [("10.89.0.1", "10.89.0.1", "ip"), ("fd00::1", "[fd00::1]", "ip6")]
)
def test_an_address_is_written_as_its_family_wants_it(address: str, before_a_port: str, family: str) -> None:
    assert (in_url(address), of_packets(address)) == (before_a_port, family)
