"""The scripts that make the network of a cluster and its faults, as the programs of iproute2 and nftables get them."""

import subprocess
from types import SimpleNamespace

import pytest

from cotenant_local.controlplane import network
from cotenant_local.host.addresses import FAMILIES
from local.tests.plans import node_plan

Scripts = list[tuple[str, str]]
V4, V6 = FAMILIES["IPv4"], FAMILIES["IPv6"]
NFT = "nft -f -"
IP = "ip -batch -"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Scripts:
    """Command → script; the switches of the kernel too."""
    made: Scripts = []

    def run(command: list[str], *, input: str = "", **_: object) -> SimpleNamespace:  # noqa: A002 – subprocess's name
        made.append((" ".join(command), input))
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(network, "_sysctl", lambda name, value: made.append((name, value)))
    return made


def test_the_control_plane_is_on_a_bridge_and_forwards(scripts: Scripts) -> None:
    network.control_plane(V4)
    lines = "link set lo up\nlink add lan0 mtu 65520 type bridge\naddr add 10.89.0.1/24 dev lan0\nlink set lan0 up"
    assert scripts == [(IP, lines), ("net/ipv4/ip_forward", "1")]


def test_a_node_is_plugged_in_anew_with_the_way_to_its_pods(scripts: Scripts) -> None:
    network.plug("port0", 99, node_plan())
    assert scripts == [
        ("ip link del port0", ""),
        (
            IP,
            "link add port0 mtu 65520 type veth peer name eth0 mtu 65520 netns 99\n"
            "link set port0 master lan0 up\nroute replace 10.244.1.0/24 via 10.89.0.10",
        ),
    ]


def test_a_node_reaches_the_pods_of_the_others_directly(scripts: Scripts) -> None:
    network.node(V4, node_plan(0), (node_plan(1), node_plan(2)))
    assert scripts[0] == (
        IP,
        "link set lo up\naddr add 10.89.0.10/24 dev eth0\nlink set eth0 up\nroute add default via 10.89.0.1\n"
        "route add 10.244.2.0/24 via 10.89.0.11\nroute add 10.244.3.0/24 via 10.89.0.12",
    )


def test_exactly_the_nodes_that_are_named_are_cut_off(scripts: Scripts) -> None:
    network.isolate([node_plan(0), node_plan(1)])
    network.isolate([])
    cleared = "table inet cotenant-faults\ndelete table inet cotenant-faults"
    ranges = "10.89.0.10, 10.244.1.0/24, 10.89.0.11, 10.244.2.0/24"
    assert scripts == [
        (
            NFT,
            f"{cleared}\ntable inet cotenant-faults {{\n"
            f"chain input {{ type filter hook input priority 0; ip saddr {{ {ranges} }} tcp dport 6443 drop; }}\n"
            f"chain output {{ type filter hook output priority 0; ip daddr {{ {ranges} }} drop; }}\n}}",
        ),
        (NFT, cleared),
    ]


def test_pods_are_led_to_another_port_of_the_api_server_and_back(scripts: Scripts) -> None:
    network.divert_api(V4, 6444)
    network.divert_api(V4, None)
    cleared = "table ip cotenant-api\ndelete table ip cotenant-api"
    rule = "ip saddr 10.244.0.0/16 tcp dport 6443 redirect to :6444"
    chain = f"chain prerouting {{ type nat hook prerouting priority dstnat; {rule}; }}"
    assert scripts == [(NFT, f"{cleared}\ntable ip cotenant-api {{\n{chain}\n}}"), (NFT, cleared)]


def test_held_connections_lose_their_first_packet_only(scripts: Scripts) -> None:
    network.hold_api(V4.control_plane, held=True)
    network.hold_api(V4.control_plane, held=False)
    cleared = "table ip cotenant-gate\ndelete table ip cotenant-gate"
    rule = "ip daddr 10.89.0.1 tcp dport 6443 tcp flags & (syn | ack) == syn drop"
    chain = f"chain input {{ type filter hook input priority 0; {rule}; }}"
    assert scripts == [(NFT, f"{cleared}\ntable ip cotenant-gate {{\n{chain}\n}}"), (NFT, cleared)]


def test_a_cluster_of_the_other_family_is_made_by_the_same_lines(scripts: Scripts) -> None:
    network.control_plane(V6)
    network.divert_api(V6, 6444)
    network.hold_api(V6.control_plane, held=True)
    assert "addr add fd00:10:89::1/112 dev lan0 nodad\n" in scripts[0][1]  # an address that is doubted is not there yet
    assert scripts[1] == ("net/ipv6/conf/all/forwarding", "1")
    assert "table ip6 cotenant-api" in scripts[2][1]
    assert "ip6 saddr fd00:10:244::/96 tcp dport 6443" in scripts[2][1]
    assert "ip6 daddr fd00:10:89::1 tcp dport 6443" in scripts[3][1]


def test_a_command_that_fails_is_named_with_its_error_and_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(returncode=1, stderr="Operation not permitted\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(network.ClusterNetworkError) as failure:
        network.isolate([])
    assert str(failure.value) == (
        "nft -f - said: Operation not permitted\nof:\ntable inet cotenant-faults\ndelete table inet cotenant-faults"
    )
