"""Documents as the operator's account sends them, and what the API server answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import kubernetes
from kubernetes.client.exceptions import ApiException

from cotenant.controller.settings import Settings

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

Document = dict[str, Any]
Change = Callable[[Document], object]
OPERATOR = {"Impersonate-User": "system:serviceaccount:cotenant-system:cotenant-operator"}
RESTORER = {"Impersonate-User": "restorer", "Impersonate-Group": "system:masters"}
"""Exempt from the policies on everybody's pods, as a backup system is."""
TEAM, ORDINARY = "stolen-team", "stolen-ordinary"
SETTINGS = Settings(namespace="cotenant-system")
JOBS = ("cotenant.dev", "v1beta1", TEAM, "trainingjobs")
NODES = ("cotenant.dev", "v1beta1", "gpunodes")
MERGE = "application/merge-patch+json"


def said(call: Callable[[], object]) -> str:
    """Empty when it was allowed, else what the server said."""
    try:
        call()
    except ApiException as error:
        return str(error.body)
    return ""


class Server:
    """Documents as the operator's account sends them. Every request is a dry run."""

    def __init__(self, cluster: Cluster) -> None:
        client = kubernetes.config.new_client_from_config(str(cluster.kubeconfig))
        self.core = kubernetes.client.CoreV1Api(client)
        self.custom = kubernetes.client.CustomObjectsApi(client)
        self.classes = kubernetes.client.NodeV1Api(client)
        self.policies = kubernetes.client.NetworkingV1Api(client)
        self._leases = kubernetes.client.CoordinationV1Api(client)

    def create(self, document: Document, namespace: str = TEAM, user: dict[str, str] = OPERATOR) -> str:
        create = {
            "Pod": self.core.create_namespaced_pod,
            "Secret": self.core.create_namespaced_secret,
            "Service": self.core.create_namespaced_service,
            "NetworkPolicy": self.policies.create_namespaced_network_policy,
            "Lease": self._leases.create_namespaced_lease,
        }[document["kind"]]
        document = document | {"metadata": document["metadata"] | {"namespace": namespace}}
        return said(lambda: create(namespace, document, dry_run="All", _headers=user))

    def change_policy(self, name: str, spec: Document) -> str:
        patch, body = self.policies.patch_namespaced_network_policy, {"spec": spec, "metadata": {"labels": {"a": "b"}}}
        return said(lambda: patch(name, TEAM, body, dry_run="All", _headers=OPERATOR, _content_type=MERGE))

    def delete_pod(self, name: str, namespace: str) -> str:
        return said(lambda: self.core.delete_namespaced_pod(name, namespace, dry_run="All", _headers=OPERATOR))

    def delete_secret(self, name: str, namespace: str) -> str:
        return said(lambda: self.core.delete_namespaced_secret(name, namespace, dry_run="All", _headers=OPERATOR))

    def delete_job(self, name: str) -> str:
        delete = self.custom.delete_namespaced_custom_object
        return said(lambda: delete(*JOBS, name, dry_run="All", _headers=OPERATOR))

    def annotate_node(self, metadata: Document) -> str:
        patch = self.custom.patch_cluster_custom_object
        body = {"metadata": metadata}
        return said(lambda: patch(*NODES, "stolen", body, dry_run="All", _headers=OPERATOR, _content_type=MERGE))


def with_spec(**fields: Any) -> Change:
    return lambda document: document["spec"].update(fields)


def with_container(**fields: Any) -> Change:
    return lambda pod: pod["spec"]["containers"][0].update(fields)


def with_security(**fields: Any) -> Change:
    return lambda pod: pod["spec"]["containers"][0]["securityContext"].update(fields)


def with_pod_security(**fields: Any) -> Change:
    return lambda pod: pod["spec"]["securityContext"].update(fields)


def with_volume(**source: Any) -> Change:
    return lambda pod: pod["spec"]["volumes"].append({"name": "more", **source})


def with_metadata(**fields: Any) -> Change:
    return lambda document: document["metadata"].update(fields)


def with_limit(name: str) -> Change:
    return lambda pod: pod["spec"]["containers"][0].update(resources={"limits": {name: "1"}})
