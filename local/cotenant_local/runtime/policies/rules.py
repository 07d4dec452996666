"""nftables of policies and pods: a pure function of the state of the cluster.

Two chains per isolated pod, one per direction, reached by its address. A chain returns what some rule allows and drops
the rest; a packet between two isolated pods passes the source's egress chain and then the destination's ingress chain.
Connections that are established go on, and a pod always reaches itself.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final

from cotenant_local.host.addresses import of_packets
from cotenant_local.runtime.policies.model import Labels, NetworkPolicy, PolicyPeer, PolicyPod, PolicyPort, PolicyRule

TABLE: Final = "cotenant-policies"
ANY: Final = ""


def ruleset(
    policies: Iterable[NetworkPolicy],
    namespaces: Mapping[str, Labels],
    pods: Iterable[PolicyPod],
    local: Iterable[PolicyPod],
) -> str:
    """The whole table, in one transaction with the removal of the old one."""
    everyone = sorted((pod for pod in pods if pod.address), key=_order)
    ordered = sorted(policies, key=lambda policy: (policy.namespace, policy.name))
    chains: list[str] = []
    jumps: dict[str, list[str]] = {}
    for number, pod in enumerate(sorted(local, key=_order)):
        mine = [policy for policy in ordered if policy.selects(pod)]
        source, destination = (f"{of_packets(pod.address)} {side}" for side in ("saddr", "daddr"))
        for direction, own, far in (("egress", source, destination), ("ingress", destination, source)):
            granted = [getattr(policy, direction) for policy in mine]
            if all(rules is None for rules in granted):
                continue
            chain = f"{direction}-{number}"
            lines = [f"{far} {pod.address} return"]
            for policy, rules in zip(mine, granted, strict=True):
                for rule in rules or ():
                    targets = [pod] if direction == "ingress" else None
                    lines += _allow(rule, policy.namespace, namespaces, everyone, far=far, targets=targets)
            chains.append(_chain(chain, [*dict.fromkeys(lines), "drop"], f"{pod.namespace}/{pod.name}"))
            jumps.setdefault(own, []).append(f"{pod.address} : jump {chain}")
    forward = ["type filter hook forward priority 0; policy accept;", "ct state established,related accept"]
    forward += [f"{side} vmap {{ {', '.join(jumps[side])} }}" for side in sorted(jumps, reverse=True)]
    chains.append(_chain("forward", forward))
    return f"table inet {TABLE} {{}}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n{''.join(chains)}}}\n"


def _order(pod: PolicyPod) -> tuple[str, str, str]:
    return pod.namespace, pod.name, pod.uid


def _chain(name: str, lines: list[str], comment: str = "") -> str:
    head = f'  comment "{comment}"\n' if comment else ""
    return f" chain {name} {{\n{head}" + "".join(f"  {line}\n" for line in lines) + " }\n"


def _allow(
    rule: PolicyRule,
    namespace: str,
    namespaces: Mapping[str, Labels],
    everyone: list[PolicyPod],
    *,
    far: str,
    targets: list[PolicyPod] | None,
) -> list[str]:
    """One rule as lines. `far`: how nftables calls the address of the far side.

    `targets`: pods whose named ports count; None: those of the far side.
    """
    lines = []
    found = [pod for pod in everyone if any(_is_peer(peer, pod, namespace, namespaces) for peer in rule.peers)]
    if not rule.peers:
        sides = [(ANY, targets if targets is not None else everyone)]
    else:
        blocks = [(_block(peer, far), targets or []) for peer in rule.peers if _is_block_of(peer, far)]
        sides = blocks + ([(f"{far} {_set(pod.address for pod in found)}", targets or found)] if found else [])
    for match, owners in sides:
        if not rule.ports:
            lines.append(f"{match} return".strip())
        for port in rule.ports:
            if isinstance(port.port, str):
                lines += _named(port, match, owners, far=far, own=targets is not None)
            else:
                lines.append(f"{match} {_numbers(port)} return".strip())
    return lines


def _is_peer(peer: PolicyPeer, pod: PolicyPod, namespace: str, namespaces: Mapping[str, Labels]) -> bool:
    if peer.block:
        return False
    if peer.namespaces is None:
        right_place = pod.namespace == namespace
    else:
        right_place = peer.namespaces.matches(namespaces.get(pod.namespace, {}))
    return right_place and (peer.pods is None or peer.pods.matches(pod.labels))


def _is_block_of(peer: PolicyPeer, far: str) -> bool:
    return bool(peer.block) and far.startswith(f"{of_packets(peer.block)} ")


def _block(peer: PolicyPeer, far: str) -> str:
    match = f"{far} {peer.block}"
    if peer.excepted:
        match += f" {far} != {_set(peer.excepted)}"
    return match


def _numbers(port: PolicyPort) -> str:
    protocol = port.protocol.lower()
    if port.port is None:
        return f"meta l4proto {protocol}"
    return f"{protocol} dport {port.port}" + (f"-{port.end}" if port.end else "")


def _named(port: PolicyPort, match: str, owners: list[PolicyPod], *, far: str, own: bool) -> list[str]:
    """A named port is the destination's: of the pod itself on the way in, of each peer on the way out."""
    by_number: dict[int, list[str]] = {}
    for pod in owners:
        number = pod.ports.get((str(port.port), port.protocol))
        if number is not None:
            by_number.setdefault(number, []).append(pod.address)
    protocol = port.protocol.lower()
    return [
        f"{match if own else f'{far} {_set(addresses)}'} {protocol} dport {number} return".strip()
        for number, addresses in sorted(by_number.items())
    ]


def _set(addresses: Iterable[str]) -> str:
    return "{ " + ", ".join(sorted(dict.fromkeys(addresses), key=ipaddress.ip_network)) + " }"
