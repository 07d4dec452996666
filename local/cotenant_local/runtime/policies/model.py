"""Pods, selectors and NetworkPolicies as values; parsed once from the API's documents.

The API server has checked the documents. Fields of newer API versions are not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Labels = Mapping[str, str]


@dataclass(frozen=True)
class LabelSelector:
    """Labels that must be there, and expressions (key, operator, values). Empty matches everything."""

    labels: tuple[tuple[str, str], ...] = ()
    expressions: tuple[tuple[str, str, frozenset[str]], ...] = ()

    @classmethod
    def parse(cls, document: dict[str, Any]) -> "LabelSelector":
        expressions = tuple(
            (entry["key"], entry["operator"], frozenset(entry.get("values") or ()))
            for entry in document.get("matchExpressions") or ()
        )
        return cls(tuple(sorted((document.get("matchLabels") or {}).items())), expressions)

    def matches(self, labels: Labels) -> bool:
        return all(labels.get(key) == value for key, value in self.labels) and all(
            _holds(labels.get(key), operator, values) for key, operator, values in self.expressions
        )


def _holds(value: str | None, operator: str, values: frozenset[str]) -> bool:
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


@dataclass(frozen=True)
class PolicyPod:
    """A pod as policies match it. `ports` are its named container ports: (name, protocol) to number."""

    namespace: str
    name: str
    uid: str
    address: str
    labels: Labels
    ports: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def parse(cls, document: dict[str, Any]) -> "PolicyPod | None":
        """None for pods that policies do not concern: of the node's network, or ended (their address may be reused)."""
        meta, spec, status = document["metadata"], document["spec"], document.get("status") or {}
        if spec.get("hostNetwork") or status.get("phase") in {"Succeeded", "Failed"}:
            return None
        containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
        ports = {
            (port["name"], port.get("protocol", "TCP")): port["containerPort"]
            for container in containers
            for port in container.get("ports") or ()
            if port.get("name")
        }
        address, labels = status.get("podIP", ""), meta.get("labels") or {}
        return cls(meta["namespace"], meta["name"], meta["uid"], address, labels, ports)


@dataclass(frozen=True)
class PolicyPeer:
    """One side of a rule: pods by selectors (None: the policy's own namespace; all pods), or a range of addresses."""

    namespaces: LabelSelector | None = None
    pods: LabelSelector | None = None
    block: str = ""
    excepted: tuple[str, ...] = ()

    @classmethod
    def parse(cls, document: dict[str, Any]) -> "PolicyPeer":
        if block := document.get("ipBlock"):
            return cls(block=block["cidr"], excepted=tuple(block.get("except") or ()))
        namespaces, pods = document.get("namespaceSelector"), document.get("podSelector")
        return cls(
            LabelSelector.parse(namespaces) if namespaces is not None else None,
            LabelSelector.parse(pods) if pods is not None else None,
        )


@dataclass(frozen=True)
class PolicyPort:
    """A number, a name of the destination's, or None for all; `end` closes a range."""

    protocol: str = "TCP"
    port: int | str | None = None
    end: int | None = None


@dataclass(frozen=True)
class PolicyRule:
    """Allows any of the peers on any of the ports; none of either means all."""

    peers: tuple[PolicyPeer, ...] = ()
    ports: tuple[PolicyPort, ...] = ()

    @classmethod
    def parse(cls, document: dict[str, Any], side: str) -> "PolicyRule":
        ports = tuple(
            PolicyPort(entry.get("protocol", "TCP"), entry.get("port"), entry.get("endPort"))
            for entry in document.get("ports") or ()
        )
        return cls(tuple(map(PolicyPeer.parse, document.get(side) or ())), ports)


@dataclass(frozen=True)
class NetworkPolicy:
    """Isolates the pods it selects in the directions that are not None, except for traffic that the rules allow."""

    namespace: str
    name: str
    pods: LabelSelector
    ingress: tuple[PolicyRule, ...] | None
    egress: tuple[PolicyRule, ...] | None

    @classmethod
    def parse(cls, document: dict[str, Any]) -> "NetworkPolicy":
        meta, spec = document["metadata"], document["spec"]
        types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
        into = tuple(PolicyRule.parse(rule, "from") for rule in spec.get("ingress") or ())
        out = tuple(PolicyRule.parse(rule, "to") for rule in spec.get("egress") or ())
        return cls(
            meta["namespace"],
            meta["name"],
            LabelSelector.parse(spec.get("podSelector") or {}),
            into if "Ingress" in types else None,
            out if "Egress" in types else None,
        )

    def selects(self, pod: PolicyPod) -> bool:
        return self.namespace == pod.namespace and self.pods.matches(pod.labels)
