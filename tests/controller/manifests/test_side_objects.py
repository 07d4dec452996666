"""Service, Secret and NetworkPolicy of a job, compared whole. Pure."""

from __future__ import annotations

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
    dns_ports = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
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
                    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
                    "ports": dns_ports,
                },
                {"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]},
            ],
        },
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
