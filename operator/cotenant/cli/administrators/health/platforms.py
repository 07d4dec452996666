"""The platforms of docs/platforms.md that can be recognised in a cluster, and what each needs.

A test compares the names with the rows of that page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity

Trace = Callable[[SeenCluster], str]


@dataclass(frozen=True, slots=True)
class Platform:
    name: str
    """The platform's name on the page."""
    trace: Trace
    """The evidence in the cluster; empty if there is none."""
    needs: str = ""
    """The values to set; empty if there are none."""


def labelled(*prefixes: str) -> Trace:
    """Nodes with a label that has this prefix."""

    def trace(cluster: SeenCluster) -> str:
        found = (label for node in cluster.items("nodes") for label in node["metadata"].get("labels") or {})
        return next((f"label {label} of nodes" for label in sorted(found) if label.startswith(prefixes)), "")

    return trace


def installed(*groups: str) -> Trace:
    """CustomResourceDefinitions of these API groups or of groups below them."""

    def trace(cluster: SeenCluster) -> str:
        found = {str(one.get("spec", {}).get("group", "")) for one in cluster.items("crds")}
        seen = (one for one in sorted(found) if any(one == group or one.endswith(f".{group}") for group in groups))
        return next((f"CustomResourceDefinitions of {one}" for one in seen), "")

    return trace


def running(*systems: str) -> Trace:
    """Nodes with this operating system."""

    def trace(cluster: SeenCluster) -> str:
        images = {str(_status(node).get("nodeInfo", {}).get("osImage", "")) for node in cluster.items("nodes")}
        return next((f"nodes with {one}" for one in sorted(images) if any(name in one for name in systems)), "")

    return trace


def _ipv6(cluster: SeenCluster) -> str:
    spec = (node.get("spec") or {} for node in cluster.items("nodes"))
    ranges = [one for node in spec for one in node.get("podCIDRs") or () if ":" in one]
    return f"pods in {ranges[0]}" if ranges else ""


def _without_gpus(cluster: SeenCluster) -> str:
    gpu = {one["metadata"]["name"] for one in cluster.items("gpuNodes")}
    without = [one for one in cluster.items("nodes") if one["metadata"]["name"] not in gpu]
    return f"{len(without)} of {len(cluster.items('nodes'))} nodes" if gpu and without else ""


def _status(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return node.get("status") or {}


PLATFORMS: Final = (
    Platform("GKE: quota for critical priority classes", labelled("cloud.google.com/gke-")),
    Platform(
        "GKE's GPU nodes", labelled("cloud.google.com/gke-"), "a node pool with NVIDIA's GPU Operator; not Autopilot"
    ),
    Platform("GKE Cloud DNS, NodeLocal DNSCache", labelled("cloud.google.com/gke-")),
    Platform("private GKE", labelled("cloud.google.com/gke-")),
    Platform(
        "EKS: roles for service accounts", labelled("eks.amazonaws.com/"),
        "no role at the ServiceAccount `default` of tenants' namespaces",
    ),
    Platform(
        "EKS with an overlay network", labelled("eks.amazonaws.com/"),
        "if the control plane does not reach pods: operator.hostNetwork=true, query.port=8444 and"
        " operator.settings.operator_cidrs",
    ),
    Platform("EKS with network policies of the VPC CNI", installed("networking.k8s.aws")),
    Platform("EKS: security groups for pods", installed("vpcresources.k8s.aws")),
    Platform("Multus, as the Network Operator brings it", installed("k8s.cni.cncf.io")),
    Platform(
        "Argo CD, Flux", installed("argoproj.io", "fluxcd.io"), "let the APIService through, if the tool leaves it out"
    ),
    Platform("cert-manager", installed("cert-manager.io"), "query.certManager=true, if it is to make the certificate"),
    Platform("OpenShift", installed("openshift.io"), "openshift.enabled=true, with tools that only render"),
    Platform(
        "Talos, Container-Optimized OS, Bottlerocket, Flatcar",
        running("Talos", "Container-Optimized OS", "Bottlerocket", "Flatcar"),
    ),
    Platform(
        "hosts that enforce SELinux: RHEL, Rocky, Fedora, SUSE",
        running("Red Hat Enterprise Linux", "Rocky Linux", "Fedora", "SUSE", "AlmaLinux", "CentOS"),
        "agent.seLinuxType=spc_t, if they enforce SELinux",
    ),
    Platform(
        "NVIDIA's GPU Operator", installed("nvidia.com"),
        'agent.nodeSelector: {nvidia.com/gpu.deploy.client: "true"}',
    ),
    Platform("nodes without GPUs", _without_gpus),
    Platform("IPv6, dual stack", _ipv6),
    Platform(
        "service meshes: Istio, ambient mode, Linkerd, Kuma, Consul",
        installed("istio.io", "linkerd.io", "kuma.io", "consul.hashicorp.com"),
    ),
    Platform(
        "monitoring agents that join pods: Datadog, Dynatrace, Instana, OpenTelemetry",
        installed("datadoghq.com", "dynatrace.com", "instana.io", "opentelemetry.io"),
    ),
    Platform("minikube, MicroK8s", labelled("minikube.k8s.io/", "microk8s.io/")),
    Platform("Karpenter, cluster-autoscaler", installed("karpenter.sh")),
    Platform(
        "policies that want a limit of CPU: Gatekeeper, Azure Policy, Kyverno",
        installed("gatekeeper.sh", "kyverno.io"),
        "if a policy wants it: limits.cpu in the resources of operator, agent, agent.mps and dashboard",
    ),
    Platform(
        "policies that demand labels of pods: Kyverno, Gatekeeper",
        installed("gatekeeper.sh", "kyverno.io"),
        "if a policy demands them: podLabels, and operator.settings.namespace_labels for those of each tenant",
    ),
    Platform(
        "Kueue", installed("kueue.x-k8s.io"),
        "if it manages pods, or jobs without a queue name: leave tenants' namespaces out of its"
        " managedJobsNamespaceSelector",
    ),
)  # fmt: skip


def platforms(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """The platforms that were recognised and what each needs. After the installation only those that still need
    something.
    """
    for one in PLATFORMS:
        seen = one.trace(cluster)
        if seen and not cluster.is_installed:
            needs = one.needs or "nothing to set"
            yield Diagnosis(Severity.NOTE, one.name, f"seen by {seen}", f"{needs} (docs/platforms.md)")
