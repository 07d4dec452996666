"""Identities of a cluster: certificates and kubeconfigs of every component, each with only its own rights.

Made once, before the sandbox starts. Names and groups are those that Kubernetes gives meaning to.
"""

import base64
import json
from pathlib import Path
from typing import Any

from cotenant_local.cluster.certificates import CertificateAuthority, signing_key
from cotenant_local.host.addresses import in_url
from cotenant_local.host.cluster_folder import ClusterFolder, write_secret
from cotenant_local.host.cluster_plan import ClusterPlan

COMPONENTS = {
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kube-proxy": ("system:kube-proxy", ()),
    "coredns": ("system:coredns", ()),
    "network-policies": ("system:network-policies", ()),
    "volumes": ("system:volumes", ()),
    "metrics": ("system:metrics", ()),
    "admin": ("kubernetes-admin", ("system:masters",)),
}


def create(state: ClusterFolder, plan: ClusterPlan) -> None:
    ca, front = CertificateAuthority(state.pki, "ca"), CertificateAuthority(state.pki, "front-proxy-ca")
    etcd = CertificateAuthority(state.pki, "etcd-ca")
    service = "kubernetes.default.svc"
    names = ("kubernetes", "kubernetes.default", service, f"{service}.cluster.local", "localhost")
    inside = f"https://{in_url(plan.addresses.control_plane)}:6443"
    addresses = (plan.addresses.control_plane, plan.addresses.api_service, "127.0.0.1")
    ca.issue("apiserver", common_name="kube-apiserver", hosts=(*names, *addresses))
    ca.issue("apiserver-kubelet-client", common_name="kube-apiserver", groups=("system:masters",))
    metrics = "metrics-server.kube-system.svc"
    ca.issue("metrics-serving", common_name=metrics, hosts=(metrics, plan.addresses.control_plane))
    front.issue("front-proxy-client", common_name="front-proxy-client")
    etcd.issue("etcd", common_name="etcd", hosts=("localhost", "127.0.0.1"))
    etcd.issue("apiserver-etcd-client", common_name="kube-apiserver")
    signing_key(state.pki, "service-accounts")
    for name, (user, groups) in COMPONENTS.items():
        files = ca.issue(name, common_name=user, groups=groups)
        save_kubeconfig(state.config / f"{name}.kubeconfig", inside, ca, files, plan.name)
    for node in plan.nodes:
        ca.issue(f"{node.name}-serving", common_name=f"system:node:{node.name}", hosts=(node.name, node.address))
        files = ca.issue(node.name, common_name=f"system:node:{node.name}", groups=("system:nodes",))
        save_kubeconfig(state.config / f"kubelet-{node.name}.kubeconfig", inside, ca, files, plan.name)
    outside = ca.issue("admin", common_name="kubernetes-admin", groups=("system:masters",))
    save_kubeconfig(state.kubeconfig, f"https://127.0.0.1:{plan.api_port}", ca, outside, f"cotenant-{plan.name}")


def save_kubeconfig(path: Path, server: str, ca: CertificateAuthority, files: tuple[Path, Path], cluster: str) -> None:
    """The certificates are inside the file, so it can be copied anywhere. JSON is YAML."""
    certificate, key = (_encoded(file) for file in files)
    credentials = {"client-certificate-data": certificate, "client-key-data": key}
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster,
                "cluster": {"server": server, "certificate-authority-data": _encoded(ca.certificate_file)},
            }
        ],
        "users": [{"name": "user", "user": credentials}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "user"}}],
        "current-context": cluster,
    }
    write_secret(path, json.dumps(document, indent=1).encode())


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
