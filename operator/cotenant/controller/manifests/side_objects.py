"""Pure builders of the objects beside a job's pods: headless Service, token Secret, NetworkPolicies.

The Service and the NetworkPolicy live as long as the job; the Secret belongs to one attempt, so that no process of an
earlier attempt can join the Ray cluster of this one. Its random token comes in as data. The base NetworkPolicy is of a
namespace: it closes the pods of all jobs there, and is all that a job of one pod needs.
"""

from __future__ import annotations

import base64
from typing import Any

from cotenant import names
from cotenant.api.scalars.networks import listed
from cotenant.controller.client.kube import NETWORK_POLICIES, SECRETS, SERVICES, Document, Resource
from cotenant.controller.manifests.attempt import Attempt
from cotenant.controller.settings import Settings

NAMESPACE_NAME = "kubernetes.io/metadata.name"


def side_objects(
    attempt: Attempt, token: str, settings: Settings, *, closed_by_base: bool = False
) -> list[tuple[Resource, Document]]:
    """Objects as far as this attempt needs them: each costs a write at every admission. `closed_by_base`: the base
    NetworkPolicy is in force in its namespace.
    """
    objects = []
    if not (closed_by_base and attempt.is_one_pod):
        objects.append((NETWORK_POLICIES, network_policy(attempt, settings)))
    if attempt.needs_names:
        objects.append((SERVICES, service(attempt)))
    if attempt.needs_token:
        objects.append((SECRETS, token_secret(attempt, token)))
    return objects


def service(attempt: Attempt) -> Document:
    """Headless Service. It gives every pod a DNS name even before the pod is ready, because ranks rendezvous before
    that.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": attempt.metadata | {"name": attempt.job},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.LABEL_JOB_UID: attempt.uid},
            "ports": [{"name": "progress", "port": names.PROGRESS_PORT}],
        },
    }


def token_secret(attempt: Attempt, token: str) -> Document:
    """Secret of one attempt: its name is no other's, so one that exists is this one, and need not be read."""
    metadata = attempt.metadata | {"name": attempt.secret_name}
    metadata["labels"][names.LABEL_ATTEMPT] = str(attempt.number)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "immutable": True,
        "data": {names.SECRET_TOKEN_KEY: base64.b64encode(token.encode()).decode()},
    }


def network_policy(attempt: Attempt, settings: Settings) -> Document:
    """Allow the same job's pods and DNS, the operator's progress polls, and nothing else, in both directions."""
    same_job: dict[str, Any] = {"podSelector": {"matchLabels": {names.LABEL_JOB_UID: attempt.uid}}}
    spec = _closed(same_job["podSelector"], settings)
    spec["ingress"].insert(0, {"from": [same_job]})
    spec["egress"].insert(0, {"to": [same_job]})
    return _policy(attempt.metadata | {"name": attempt.job}, spec)


def base_network_policy(namespace: str, settings: Settings) -> Document:
    """Allow all pods of jobs in a namespace DNS and the operator's progress polls, and nothing else."""
    ours = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    metadata = {"name": names.BASE_NETWORK_POLICY, "namespace": namespace, "labels": ours}
    return _policy(metadata, _closed({"matchLabels": dict(ours)}, settings))


def _policy(metadata: dict[str, Any], spec: dict[str, Any]) -> Document:
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


def _closed(pods: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Rules for pods that only the operator may reach and that reach only DNS and what the administrator opened."""
    operator: list[dict[str, Any]] = [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: settings.namespace}}}]
    operator += _networks(listed(settings.operator_cidrs))  # a selector finds no pod that has the network of its node
    egress: list[dict[str, Any]] = [_dns(settings)]
    if networks := listed(settings.egress_cidrs):
        egress.append({"to": _networks(networks)})
    return {
        "podSelector": pods,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": operator, "ports": [{"protocol": "TCP", "port": names.PROGRESS_PORT}]}],
        "egress": egress,
    }


def _dns(settings: Settings) -> dict[str, Any]:
    """Rule for the DNS pods, and for resolvers that are no pods: caches on the node, link-local ones of clouds."""
    ports = [{"protocol": one, "port": int(port)} for port in listed(settings.dns_ports) for one in ("UDP", "TCP")]
    if not settings.dns_namespace:
        return {"ports": ports}
    of_pods = [
        {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}}}
        for namespace in listed(settings.dns_namespace)
    ]
    return {"ports": ports, "to": of_pods + _networks(listed(settings.dns_cidrs))}


def _networks(cidrs: list[str]) -> list[dict[str, Any]]:
    return [{"ipBlock": {"cidr": cidr}} for cidr in cidrs]
