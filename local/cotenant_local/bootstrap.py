"""The objects a cluster starts with: the DNS Service and its rights, and the Nodes.

Called by the supervisor once the API server is ready. Nodes exist before their kubelets: labels, taints, annotations
and the range of pod addresses are there from the first moment, and the kubelet fills in the rest.
"""

from typing import Any

from cotenant_local.addresses import Addresses
from cotenant_local.api import MERGE, Api
from cotenant_local.state import NodePlan

RBAC = "/apis/rbac.authorization.k8s.io/v1"
DNS_PORTS = [
    {"name": "dns", "port": 53, "protocol": "UDP"},
    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
]


def dns(api: Api) -> None:
    """CoreDNS runs beside the API server, not in a pod: a cluster without nodes resolves names too."""
    labels = {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}
    rules = [
        {
            "apiGroups": [""],
            "resources": ["endpoints", "services", "pods", "namespaces"],
            "verbs": ["list", "watch"],
        },
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    _grant(api, "system:coredns", rules)
    service = _object("Service", "kube-dns", spec={"clusterIP": Addresses.DNS_SERVICE, "ports": DNS_PORTS})
    service["metadata"]["labels"] = labels
    api.apply("/api/v1/namespaces/kube-system/services", service)
    # Without a selector: the endpoint is this one, and no controller touches it.
    endpoints = _object(
        "EndpointSlice",
        "kube-dns-control-plane",
        addressType="IPv4",
        ports=DNS_PORTS,
        endpoints=[{"addresses": [Addresses.CONTROL_PLANE], "conditions": {"ready": True}}],
    )
    endpoints["metadata"]["labels"] = {
        **labels,
        "kubernetes.io/service-name": "kube-dns",
        "endpointslice.kubernetes.io/managed-by": "cotenant-local",
    }
    api.apply("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", endpoints)


def network_policies(api: Api) -> None:
    """The rights of the nodes' runtimes, which enforce them."""
    rules = [
        {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["list", "watch"]},
    ]
    _grant(api, "system:network-policies", rules)


def _grant(api: Api, user: str, rules: list[dict[str, Any]]) -> None:
    """A ClusterRole of the user's own name, bound to that user."""
    api.apply(f"{RBAC}/clusterroles", _object("ClusterRole", user, rules=rules))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = _object("ClusterRoleBinding", user, roleRef=reference, subjects=[subject])
    api.apply(f"{RBAC}/clusterrolebindings", binding)


def node(api: Api, plan: NodePlan) -> None:
    manifest: dict[str, Any] = plan.manifest
    api.apply("/api/v1/nodes", manifest)


def extended_resources(api: Api, plan: NodePlan) -> None:
    """After the kubelet's first status: it keeps what it finds there."""
    amounts = {name: str(amount) for name, amount in plan.resources.items()}
    if amounts:
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        api.call("PATCH", f"/api/v1/nodes/{plan.name}/status", status, kind=MERGE)


def node_ready(api: Api, name: str) -> bool:
    conditions = api.call("GET", f"/api/v1/nodes/{name}").get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _object(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    versions = {"Service": "v1", "EndpointSlice": "discovery.k8s.io/v1"}
    version = versions.get(kind, "rbac.authorization.k8s.io/v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}
