"""The objects a cluster starts with: DNS, the storage class, the metrics API, the rights for them, and the Nodes.

Created once the API server is ready. Nodes exist before their kubelets: labels, taints, annotations
and the range of pod addresses are there from the first moment, and the kubelet fills in the rest.
"""

import base64
from pathlib import Path
from typing import Any, Final

from cotenant_local.controlplane.volume_provisioner import CLASS, PROVISIONER
from cotenant_local.host.addresses import Addresses, is_v6
from cotenant_local.host.api_client import MERGE, Api
from cotenant_local.host.cluster_plan import NodePlan
from cotenant_local.metrics import metrics_api as metrics

RBAC_V1: Final = "rbac.authorization.k8s.io/v1"
RBAC = f"/apis/{RBAC_V1}"
SYSTEM: Final = "kube-system"
READ = ["list", "watch"]
DNS_PORTS = [
    {"name": "dns", "port": 53, "protocol": "UDP"},
    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
]
METRICS_PORTS = [{"name": "https", "port": metrics.PORT, "protocol": "TCP"}]
Document = dict[str, Any]


def create_system_objects(api: Api, pki: Path, addresses: Addresses, *, with_metrics: bool) -> None:
    """Creates the objects that a cluster starts with, except its Nodes. Safe to repeat."""
    dns(api, addresses)
    network_policies(api)
    volumes(api)
    if with_metrics:
        metrics_api(api, pki, addresses)


def dns(api: Api, addresses: Addresses) -> None:
    """CoreDNS runs beside the API server, not in a pod: a cluster without nodes resolves names too."""
    _grant(
        api,
        "system:coredns",
        _rule("", ["endpoints", "services", "pods", "namespaces"], READ),
        _rule("discovery.k8s.io", ["endpointslices"], READ),
    )
    labels = {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}
    at = addresses.control_plane
    _serve(api, "kube-dns", at, DNS_PORTS, labels, clusterIP=addresses.dns_service)


def network_policies(api: Api) -> None:
    """The rights of the nodes' runtimes, which enforce them."""
    _grant(
        api,
        "system:network-policies",
        _rule("", ["pods", "namespaces"], READ),
        _rule("networking.k8s.io", ["networkpolicies"], READ),
    )


def volumes(api: Api) -> None:
    _grant(
        api,
        "system:volumes",
        _rule("", ["persistentvolumeclaims"], READ),
        _rule("", ["persistentvolumes"], [*READ, "create", "delete"]),
        _rule("", ["events"], ["create"]),
    )
    name = "storageclass.kubernetes.io/is-default-class"
    storage_class = _object("storage.k8s.io/v1", "StorageClass", CLASS, provisioner=PROVISIONER)
    storage_class["metadata"]["annotations"] = {name: "true"}
    api.apply("/apis/storage.k8s.io/v1/storageclasses", storage_class)


def metrics_api(api: Api, pki: Path, addresses: Addresses) -> None:
    _grant(api, "system:metrics", _rule("", ["nodes/metrics"], ["get"]), _rule("", ["nodes", "pods"], ["get", "list"]))
    _serve(api, "metrics-server", addresses.control_plane, METRICS_PORTS, {"k8s-app": "metrics-server"})
    reader = _object(
        RBAC_V1,
        "ClusterRole",
        "system:aggregated-metrics-reader",
        rules=[_rule(metrics.GROUP, ["nodes", "pods"], ["get", "list"])],
    )
    # The usual roles include this one, so that a user who may see pods may see their usage.
    roles = ("view", "edit", "admin")
    reader["metadata"]["labels"] = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in roles}
    api.apply(f"{RBAC}/clusterroles", reader)
    service = {
        "group": metrics.GROUP,
        "version": metrics.VERSION,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "caBundle": base64.b64encode((pki / "ca.crt").read_bytes()).decode(),
        "service": {"name": "metrics-server", "namespace": SYSTEM, "port": metrics.PORT},
    }
    group = f"{metrics.VERSION}.{metrics.GROUP}"
    registration = _object("apiregistration.k8s.io/v1", "APIService", group, spec=service)
    api.apply("/apis/apiregistration.k8s.io/v1/apiservices", registration)


def metrics_available(api: Api) -> bool:
    """Raises ApiError as long as it does not."""
    return bool(api.call("GET", metrics.PREFIX))


def _serve(api: Api, name: str, address: str, ports: list[Document], labels: Document, **spec: Any) -> None:
    """A Service whose endpoint runs beside the API server."""
    service = _object("v1", "Service", name, spec={**spec, "ports": ports})
    service["metadata"]["labels"] = labels
    api.apply(f"/api/v1/namespaces/{SYSTEM}/services", service)
    # Without a selector: the endpoint is this one, and no controller touches it.
    endpoints = _object(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        f"{name}-control-plane",
        addressType="IPv6" if is_v6(address) else "IPv4",
        ports=ports,
        endpoints=[{"addresses": [address], "conditions": {"ready": True}}],
    )
    endpoints["metadata"]["labels"] = {
        **labels,
        "kubernetes.io/service-name": name,
        "endpointslice.kubernetes.io/managed-by": "cotenant-local",
    }
    api.apply(f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices", endpoints)


def _rule(group: str, resources: list[str], verbs: list[str]) -> Document:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _grant(api: Api, user: str, *rules: Document) -> None:
    """A ClusterRole of the user's own name, bound to that user."""
    api.apply(f"{RBAC}/clusterroles", _object(RBAC_V1, "ClusterRole", user, rules=list(rules)))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = _object(RBAC_V1, "ClusterRoleBinding", user, roleRef=reference, subjects=[subject])
    api.apply(f"{RBAC}/clusterrolebindings", binding)


def create_node(api: Api, plan: NodePlan) -> None:
    manifest: dict[str, Any] = plan.manifest
    api.apply("/api/v1/nodes", manifest)


def set_extended_resources(api: Api, plan: NodePlan) -> None:
    """Sets them after the kubelet's first status, because the kubelet keeps resources that it finds there."""
    amounts = {name: str(amount) for name, amount in plan.resources.items()}
    if amounts:
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        api.call("PATCH", f"/api/v1/nodes/{plan.name}/status", status, kind=MERGE)


def node_ready(api: Api, name: str) -> bool:
    conditions = api.call("GET", f"/api/v1/nodes/{name}").get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _object(version: str, kind: str, name: str, **rest: Any) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}
