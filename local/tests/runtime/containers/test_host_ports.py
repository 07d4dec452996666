"""Host ports: which pod has which, what collides, and the table of rules."""

import shutil
from pathlib import Path

import pytest

from cotenant_local.runtime.containers import host_ports
from cotenant_local.runtime.containers.sandboxes import Sandbox
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from local.tests.runtime.cri_messages import Message

pytestmark = pytest.mark.usefixtures("cri_numbers")
TCP, UDP = 0, 1


@pytest.fixture(autouse=True)
def _nft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/sbin/{name}")


def pod(name: str, *mappings: tuple[int, str, int, int], network: int = 0) -> Sandbox:
    """`mappings`: protocol, address and port of the node, port of the pod."""
    config = Message(
        metadata=Message(name=name),
        linux=Message(security_context=Message(namespace_options=Message(network=network))),
        port_mappings=[
            Message(protocol=protocol, host_ip=address, host_port=port, container_port=target)
            for protocol, address, port, target in mappings
        ],
    )
    return Sandbox(name, Path("/s"), config, 1, name, "", address="10.244.1.2")


def test_ports_of_every_address_have_none_and_a_pod_of_the_nodes_network_has_no_ports() -> None:
    mappings = [(TCP, "0.0.0.0", 80, 8080), (UDP, "10.0.0.9", 53, 53), (TCP, "", 0, 9000)]
    assert host_ports.ports(pod("a", *mappings)) == {("tcp", "", 80): 8080, ("udp", "10.0.0.9", 53): 53}
    assert host_ports.ports(pod("a", *mappings, network=2)) == {}


@pytest.mark.parametrize(
    ("new", "taken"),
    [
        ((TCP, "", 80, 1), True),
        ((TCP, "10.0.0.9", 80, 1), True),
        ((UDP, "", 80, 1), False),
        ((TCP, "", 81, 1), False),
    ],
)
def test_a_port_of_all_addresses_is_taken_for_each(new: tuple[int, str, int, int], taken: bool) -> None:
    other = pod("first", (TCP, "", 80, 8080))
    if not taken:
        host_ports.check(pod("second", new), [other])
        return
    with pytest.raises(UnsupportedError, match=r"^hostPort 80/tcp is taken by pod first$"):
        host_ports.check(pod("second", new), [other])


def test_two_pods_may_have_a_port_on_addresses_that_differ_but_not_on_one() -> None:
    other = pod("first", (TCP, "10.0.0.8", 80, 8080))
    host_ports.check(pod("second", (TCP, "10.0.0.9", 80, 1)), [other])
    with pytest.raises(UnsupportedError, match="taken by pod first"):
        host_ports.check(pod("second", (TCP, "10.0.0.8", 80, 1)), [other])


def test_a_port_that_nothing_could_forward_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match=r"^hostPort 80 on fd00::1: host ports work with IPv4 alone here$"):
        host_ports.check(pod("a", (TCP, "fd00::1", 80, 1)), [])
    monkeypatch.setattr(shutil, "which", lambda _: None)
    host_ports.check(pod("without"), [])
    with pytest.raises(UnsupportedError, match="hostPort needs the program nft"):
        host_ports.check(pod("a", (TCP, "", 80, 1)), [])


def test_the_table_is_written_as_a_whole() -> None:
    made = host_ports.rules([pod("a", (TCP, "", 80, 8080), (UDP, "10.0.0.9", 53, 53))])
    flow = (
        "  fib daddr type local ip daddr != 127.0.0.0/8 tcp dport 80 dnat to 10.244.1.2:8080\n"
        "  ip daddr 10.0.0.9 udp dport 53 dnat to 10.244.1.2:53\n"
    )
    assert made == (
        "table ip cotenant-hostports {}\ndelete table ip cotenant-hostports\ntable ip cotenant-hostports {\n"
        f" chain incoming {{ type nat hook prerouting priority -100;\n{flow} }}\n"
        f" chain local {{ type nat hook output priority -100;\n{flow} }}\n"
        " chain hairpin { type nat hook postrouting priority 100;\n"
        "  ip saddr 10.244.1.2 ip daddr 10.244.1.2 masquerade\n }\n}\n"
    )
