"""A mesh that adds its proxy to every pod of a labelled namespace, unless the pod's label opts out, as Istio does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.e2e.tenancy import Tenancy
from tests.live.platforms.training import trains

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

PROXY = (
    'Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: "mesh-proxy", image: "tools",'
    ' restartPolicy: "Always"}]}}'
)
"""Without a command: an apply configuration may set no list that is replaced as a whole."""
OPTS_OUT = "object.metadata.?labels.orValue({})[?'sidecar.istio.io/inject'] != optional.of('false')"


def mesh() -> tuple[dict[str, Any], dict[str, Any]]:
    api = "admissionregistration.k8s.io/v1"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"namespaceSelector": {"matchLabels": {"mesh": "on"}}, "resourceRules": rules},
        "matchConditions": [{"name": "does-not-opt-out", "expression": OPTS_OUT}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": PROXY}}],
    }
    policy = {"apiVersion": api, "kind": "MutatingAdmissionPolicy", "metadata": {"name": "mesh"}, "spec": spec}
    binding = {"kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "mesh"}, "spec": {"policyName": "mesh"}}
    return policy, {"apiVersion": api, **binding}


@pytest.fixture
def meshed(platform: Tenancy, team: str) -> Iterator[str]:
    platform.cluster.kubectl("label", "namespace", team, "mesh=on")
    platform.apply(*mesh())
    yield team
    for kind in ("mutatingadmissionpolicy", "mutatingadmissionpolicybinding"):
        platform.cluster.kubectl("delete", kind, "mesh")


def test_an_ordinary_job_trains_in_a_namespace_of_a_mesh(platform: Tenancy, meshed: str) -> None:
    platform.wait(lambda: joins(platform, meshed), what="the mesh adds its proxy to pods that do not opt out")
    trains(platform, meshed)


def joins(platform: Tenancy, namespace: str) -> bool:
    """True if a pod of somebody else gets the proxy there."""
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    strict = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    container = {"name": "c", "image": "tools", "securityContext": strict, "env": env}
    spec = {"containers": [container], "securityContext": security}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": namespace}, "spec": spec}
    command = platform.cluster.command("kubectl", "create", "--dry-run=server", "-o", "json", "-f", "-")
    done = subprocess.run(command, input=json.dumps(pod), capture_output=True, text=True, check=False)
    return "mesh-proxy" in done.stdout or "mesh-proxy" in done.stderr
