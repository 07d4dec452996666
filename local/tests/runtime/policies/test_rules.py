"""NetworkPolicies: the nftables that are written allow exactly what the API's words allow, whatever the policies."""

import ipaddress
import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant_local.runtime.policies.model import (
    Labels,
    LabelSelector,
    NetworkPolicy,
    PolicyPeer,
    PolicyPod,
    PolicyPort,
    PolicyRule,
)
from cotenant_local.runtime.policies.rules import ruleset

NAMESPACES: dict[str, Labels] = {"red": {"team": "red"}, "blue": {"team": "blue"}}
PODS = [
    PolicyPod("red", "web", "1", "10.1.0.1", {"app": "web"}, {("http", "TCP"): 80}),
    PolicyPod("red", "db", "2", "10.1.0.2", {"app": "db"}, {("http", "TCP"): 8080}),
    PolicyPod("blue", "web", "3", "10.1.0.3", {"app": "web", "tier": "front"}),
    PolicyPod("blue", "job", "4", "10.1.0.4", {}),
]
OUTSIDE = "192.168.7.7"


# The API's words, read as they are written.


def is_peer(peer: PolicyPeer, address: str, policy: NetworkPolicy) -> bool:
    if peer.block:
        inside = ipaddress.ip_address(address) in ipaddress.ip_network(peer.block)
        return inside and not any(ipaddress.ip_address(address) in ipaddress.ip_network(out) for out in peer.excepted)
    for pod in PODS:
        if pod.address == address:
            place = NAMESPACES[pod.namespace]
            right = peer.namespaces.matches(place) if peer.namespaces else pod.namespace == policy.namespace
            return right and (peer.pods is None or peer.pods.matches(pod.labels))
    return False


def is_port(port: PolicyPort, protocol: str, number: int, target: str) -> bool:
    if port.protocol.lower() != protocol:
        return False
    if isinstance(port.port, str):
        named = next((pod.ports.get((port.port, port.protocol)) for pod in PODS if pod.address == target), None)
        return number == named
    return port.port is None or port.port <= number <= (port.end or port.port)


def side_allows(policies: list[NetworkPolicy], direction: str, packet: tuple[str, str, str, int]) -> bool:
    source, target, protocol, number = packet
    own, far = (target, source) if direction == "ingress" else (source, target)
    pod = next((pod for pod in PODS if pod.address == own), None)
    if pod is None or own == far:
        return True
    isolating = [p for p in policies if p.selects(pod) and getattr(p, direction) is not None]
    return not isolating or any(
        (not rule.peers or any(is_peer(peer, far, policy) for peer in rule.peers))
        and (not rule.ports or any(is_port(port, protocol, number, target) for port in rule.ports))
        for policy in isolating
        for rule in getattr(policy, direction)
    )


# The nftables text, read as the kernel would.


def chains(text: str) -> dict[str, list[str]]:
    found = re.findall(r"^ chain (\S+) \{\n(.*?)^ \}", text, re.S | re.M)
    return {name: [line.strip() for line in body.splitlines()] for name, body in found}


def matches(line: str, packet: tuple[str, str, str, int]) -> bool:
    source, target, protocol, number = packet
    for side, negated, members in re.findall(r"ip ([sd]addr) (!= )?(\{ [^}]* \}|[\d./]+)", line):
        address = ipaddress.ip_address(source if side == "saddr" else target)
        inside = any(address in ipaddress.ip_network(member) for member in members.strip("{} ").split(", "))
        if inside == bool(negated):
            return False
    if (wanted := re.search(r"meta l4proto (\w+)", line)) and wanted[1] != protocol:
        return False
    if ports := re.search(r"(\w+) dport (\d+)(?:-(\d+))?", line):
        return ports[1] == protocol and int(ports[2]) <= number <= int(ports[3] or ports[2])
    return True


def kernel_allows(text: str, packet: tuple[str, str, str, int]) -> bool:
    known = chains(text)
    for line in known["forward"]:
        if jump := re.match(r"ip ([sd]addr) vmap \{ (.*) \}", line):
            own = packet[0] if jump[1] == "saddr" else packet[1]
            pairs = dict(entry.split(" : jump ") for entry in jump[2].split(", "))
            if own in pairs:
                rules = (rule for rule in known[pairs[own]] if not rule.startswith("comment"))
                if next(rule for rule in rules if matches(rule, packet)).endswith("drop"):
                    return False
    return True


selectors = st.sampled_from(
    [
        LabelSelector(),
        LabelSelector((("app", "web"),)),
        LabelSelector((("team", "red"),)),
        LabelSelector((), (("app", "NotIn", frozenset({"web"})),)),
        LabelSelector((), (("tier", "Exists", frozenset()),)),
    ]
)
blocks = st.sampled_from(
    [("10.1.0.0/24", ("10.1.0.2/32",)), ("0.0.0.0/0", ()), ("192.168.0.0/16", ("192.168.7.0/24",))]
)
peers = st.one_of(
    st.builds(PolicyPeer, namespaces=st.none() | selectors, pods=selectors),
    st.builds(PolicyPeer, namespaces=selectors),
    blocks.map(lambda block: PolicyPeer(block=block[0], excepted=block[1])),
)
ports = st.sampled_from(
    [
        PolicyPort(),
        PolicyPort("TCP", 80),
        PolicyPort("UDP", 53),
        PolicyPort("TCP", "http"),
        PolicyPort("TCP", 8000, 8100),
    ]
)
rules = st.builds(PolicyRule, st.lists(peers, max_size=2).map(tuple), st.lists(ports, max_size=2).map(tuple))
some_rules = st.none() | st.lists(rules, max_size=2).map(tuple)
policies = st.builds(NetworkPolicy, st.sampled_from(["red", "blue"]), st.just("p"), selectors, some_rules, some_rules)
packets = st.tuples(
    st.sampled_from([*(pod.address for pod in PODS), OUTSIDE]),
    st.sampled_from([*(pod.address for pod in PODS), OUTSIDE]),
    st.sampled_from(["tcp", "udp"]),
    st.sampled_from([53, 80, 8000, 8080, 8100, 9999]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(policies, max_size=4), packets)
def test_what_is_written_allows_exactly_what_the_policies_say(
    chosen: list[NetworkPolicy], packet: tuple[str, str, str, int]
) -> None:
    wanted = side_allows(chosen, "egress", packet) and side_allows(chosen, "ingress", packet)
    assert kernel_allows(ruleset(chosen, NAMESPACES, PODS, PODS), packet) == wanted


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
@settings(max_examples=15, deadline=None)
@given(st.lists(policies, max_size=4))
def test_what_is_written_is_nftables(chosen: list[NetworkPolicy]) -> None:
    text = ruleset(chosen, NAMESPACES, PODS, PODS)
    command = ["unshare", "-Urn", "nft", "-c", "-f", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert "unshare" in done.stderr or done.returncode == 0, done.stderr


def test_only_pods_of_the_node_get_chains_and_the_order_of_what_is_known_does_not_matter() -> None:
    deny = NetworkPolicy("red", "deny", LabelSelector(), (), None)
    text = ruleset([deny], NAMESPACES, PODS, PODS[:1])
    assert sorted(chains(text)) == ["forward", "ingress-0"]
    assert text == ruleset([deny], NAMESPACES, list(reversed(PODS)), PODS[:1])
