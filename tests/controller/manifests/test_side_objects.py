"""Service, Secret and NetworkPolicy of a job, compared whole. Pure."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from cotenant import names
from cotenant.controller.manifests.side_objects import base_network_policy, network_policy, service, token_secret
from cotenant.controller.settings import Settings
from tests.controller.builders import UID, attempt
from tests.controller.manifests.expected import OWNED

ONLY_THIS_JOB = {"podSelector": {"matchLabels": {"cotenant.dev/job-uid": UID}}}


def test_the_service_gives_pods_their_names_before_they_are_ready() -> None:
    assert service(attempt()) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "train", "namespace": "red", **OWNED},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"cotenant.dev/job-uid": UID},
            "ports": [{"name": "progress", "port": 8099}],
        },
    }


def test_the_token_belongs_to_one_attempt() -> None:
    made = token_secret(attempt(), "secret")
    assert (made["metadata"]["name"], made["immutable"], made["data"]) == (
        f"cotenant-token-{UID}-3",
        True,
        {names.SECRET_TOKEN_KEY: "c2VjcmV0"},
    )


def test_only_the_same_job_dns_and_the_operators_progress_pass_the_network_policy() -> None:
    settings = Settings(namespace="system", egress_cidrs="10.9.0.0/16")
    dns_ports = [{"protocol": one, "port": port} for port in (53, 5353) for one in ("UDP", "TCP")]
    assert network_policy(attempt(), settings) == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "train", "namespace": "red", **OWNED},
        "spec": {
            "podSelector": ONLY_THIS_JOB["podSelector"],
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [ONLY_THIS_JOB]},
                {
                    "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "system"}}}],
                    "ports": [{"protocol": "TCP", "port": 8099}],
                },
            ],
            "egress": [
                {"to": [ONLY_THIS_JOB]},
                {
                    "to": [
                        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}},
                        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}}},
                        {"ipBlock": {"cidr": "169.254.0.0/16"}},
                    ],
                    "ports": dns_ports,
                },
                {"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]},
            ],
        },
    }


def allowed(settings: Settings, address: str, port: int, namespace: str) -> bool:
    """True if the base policy lets pods of jobs ask this server; an empty namespace: it is no pod."""
    for rule in base_network_policy("red", settings)["spec"]["egress"]:
        if {"protocol": "UDP", "port": port} not in rule.get("ports", [{"protocol": "UDP", "port": port}]):
            continue
        for peer in rule.get("to", [{"ipBlock": {"cidr": "0.0.0.0/0"}}]):
            if "ipBlock" in peer and ip_address(address) in ip_network(peer["ipBlock"]["cidr"]):
                return True
            labels = peer.get("namespaceSelector", {}).get("matchLabels", {})
            if namespace and labels == {"kubernetes.io/metadata.name": namespace}:
                return True
    return False


COREDNS = ("10.1.0.2", 53, "kube-system")
NODE_LOCAL = ("169.254.20.10", 53, "")
GKE_CLOUD_DNS = ("169.254.169.254", 53, "")
OPENSHIFT = ("10.1.0.3", 5353, "openshift-dns")
OWN = ("10.9.0.4", 1053, "dns")
METADATA = ("169.254.169.254", 80, "")


@pytest.mark.parametrize(
    ("settings", "asked", "refused"),
    [
        ({}, [COREDNS, NODE_LOCAL, GKE_CLOUD_DNS, OPENSHIFT], [OWN, METADATA]),
        ({"dns_namespace": "dns", "dns_ports": "1053", "dns_cidrs": ""}, [OWN], [COREDNS, NODE_LOCAL]),
        ({"dns_namespace": ""}, [COREDNS, NODE_LOCAL, OPENSHIFT], [OWN, METADATA]),
    ],
    ids=["by default", "a server of their own", "any server on these ports"],
)
def test_jobs_may_ask_the_dns_of_the_usual_platforms_and_nothing_else_there(
    settings: dict[str, str], asked: list[tuple[str, int, str]], refused: list[tuple[str, int, str]]
) -> None:
    made = Settings.model_validate(settings)
    assert [one for one in asked + refused if allowed(made, *one)] == asked


@pytest.mark.parametrize("of_a_job", [True, False], ids=["of a job", "the base"])
def test_an_operator_on_the_network_of_its_node_is_let_in_by_its_address(of_a_job: bool) -> None:
    settings = Settings(namespace="system", operator_cidrs="10.0.0.0/16, fd00::/64")
    made = network_policy(attempt(), settings) if of_a_job else base_network_policy("red", settings)
    assert made["spec"]["ingress"][-1] == {
        "from": [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "system"}}},
            {"ipBlock": {"cidr": "10.0.0.0/16"}},
            {"ipBlock": {"cidr": "fd00::/64"}},
        ],
        "ports": [{"protocol": "TCP", "port": 8099}],
    }


def test_the_base_network_policy_lets_dns_and_the_operators_progress_pass_and_is_of_no_job() -> None:
    made = base_network_policy("red", Settings(namespace="system", egress_cidrs="10.9.0.0/16"))
    own = network_policy(attempt(), Settings(namespace="system", egress_cidrs="10.9.0.0/16"))
    ours = {"app.kubernetes.io/managed-by": "cotenant"}
    assert made == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "jobs.cotenant.dev", "namespace": "red", "labels": ours},
        "spec": {
            "podSelector": {"matchLabels": ours},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": own["spec"]["ingress"][1:],
            "egress": own["spec"]["egress"][1:],
        },
    }
