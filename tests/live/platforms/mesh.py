"""A mesh that adds its proxy to every pod of a labelled namespace, unless the pod's label opts out, as Istio does."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.live.e2e.tenancy import Tenancy

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
