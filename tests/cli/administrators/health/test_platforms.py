"""Platforms: each row of the page is known, seen by its trace, and says what to set."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cotenant.cli.administrators.health.diagnoses import SeenCluster
from cotenant.cli.administrators.health.platforms import PLATFORMS, platforms

PAGE = Path(__file__).parents[4] / "docs" / "platforms.md"
NOT_SEEN = frozenset(
    [
        "API Priority and Fairness",
        "LimitRanges, sidecars and RuntimeClasses that add requests of CPU and memory to a job's pod",
        "Pod Security `restricted`",
        "a DNS domain other than `cluster.local`",
        "node selectors of namespaces: OpenShift's projects, PodNodeSelector",
        "nodes of Windows beside those of Linux",
        "the descheduler",
        "a parent chart with this one as a dependency",
        "images by digest alone (Kyverno, Binary Authorization)",
        "namespaces that deny all traffic; quotas that count limits; an APIService that is cut off",
        "a mesh played by a MutatingAdmissionPolicy",
        "private registries of tenants",
        "schedulers that a platform gives every pod: GKE's `optimize-utilization`, Gardener's `bin-packing`",
        "webhooks that put labels or annotations on every object: Kyverno, Gatekeeper, policies of Kubernetes",
    ]
)
"""Rows of which a cluster shows no trace: they concern a namespace, a job or the way of the installation."""


def seen(**brings: list[dict[str, Any]]) -> SeenCluster:
    found: dict[str, Any] = {name: {"items": items} for name, items in brings.items()}
    return SeenCluster(found, [], datetime(2026, 1, 1, tzinfo=UTC))


def node(label: str = "x", os: str = "", pods: str = "10.0.0.0/24", name: str = "n") -> dict[str, Any]:
    metadata = {"name": name, "labels": {label: ""}}
    return {"metadata": metadata, "spec": {"podCIDRs": [pods]}, "status": {"nodeInfo": {"osImage": os}}}


def crd(group: str) -> dict[str, Any]:
    return {"spec": {"group": group}}


def test_every_row_of_the_page_is_known() -> None:
    table = PAGE.read_text().partition("\n\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \|", table, re.M)[1:]
    assert sorted(rows) == sorted([*(one.name for one in PLATFORMS), *NOT_SEEN])


@pytest.mark.parametrize(
    ("brings", "names", "says"),
    [
        ({"nodes": [node("cloud.google.com/gke-nodepool")]}, ["GKE", "GKE's", "GKE Cloud DNS", "private GKE"], ""),
        ({"nodes": [node("eks.amazonaws.com/nodegroup")]}, ["EKS: roles", "EKS with"], "operator.hostNetwork=true"),
        ({"crds": [crd("argoproj.io")]}, ["Argo CD"], "let the APIService through"),
        ({"crds": [crd("kustomize.toolkit.fluxcd.io")]}, ["Argo CD"], "let the APIService through"),
        ({"crds": [crd("acme.cert-manager.io")]}, ["cert-manager"], "query.certManager=true"),
        ({"crds": [crd("config.openshift.io")]}, ["OpenShift"], "openshift.enabled=true"),
        ({"nodes": [node(os="Talos (v1.11)")]}, ["Talos"], "nothing to set"),
        ({"crds": [crd("nvidia.com")]}, ["NVIDIA's GPU Operator"], "nvidia.com/gpu.deploy.client"),
        ({"nodes": [node(), node(name="m")], "gpuNodes": [node(name="m")]}, ["nodes without GPUs"], "nothing to set"),
        ({"nodes": [node(pods="fd00::/64")]}, ["IPv6"], "nothing to set"),
        ({"crds": [crd("networking.istio.io")]}, ["service meshes"], "nothing to set"),
        ({"crds": [crd("karpenter.sh")]}, ["Karpenter"], "nothing to set"),
        ({"crds": [crd("networking.k8s.aws")]}, ["EKS with network policies"], "nothing to set"),
        ({"crds": [crd("k8s.cni.cncf.io")]}, ["Multus"], "nothing to set"),
        ({"crds": [crd("datadoghq.com")]}, ["monitoring agents"], "nothing to set"),
        ({"crds": [crd("dynatrace.com")]}, ["monitoring agents"], "nothing to set"),
        ({"crds": [crd("instana.io")]}, ["monitoring agents"], "nothing to set"),
        ({"crds": [crd("opentelemetry.io")]}, ["monitoring agents"], "nothing to set"),
        ({"crds": [crd("vpcresources.k8s.aws")]}, ["EKS: security groups"], "nothing to set"),
        ({"crds": [crd("templates.gatekeeper.sh")]}, ["policies that want", "policies that demand"], "limits.cpu in"),
        ({"crds": [crd("kyverno.io")]}, ["policies that want", "policies that demand"], "settings.namespace_labels"),
        ({"crds": [crd("kueue.x-k8s.io")]}, ["Kueue"], "managedJobsNamespaceSelector"),
        ({"nodes": [node("microk8s.io/cluster")]}, ["minikube, MicroK8s"], "nothing to set"),
        ({"nodes": [node()], "crds": [crd("notistio.io")]}, [], ""),
    ],
)
def test_a_platform_is_seen_and_says_what_to_set(
    brings: dict[str, list[dict[str, Any]]], names: list[str], says: str
) -> None:
    found = list(platforms(seen(**brings)))
    assert [one.subject.startswith(name) for one, name in zip(found, names, strict=True)] == [True] * len(names)
    assert says in " ".join(one.fix for one in found)


def test_after_the_installation_nothing_is_said_of_it() -> None:
    assert list(platforms(seen(crds=[crd("karpenter.sh"), crd("cotenant.dev")]))) == []
