"""NetworkPolicies with real packets: who reaches whom before, under and after a policy, on one node and across two."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from cotenant_local.host.errors import LocalError
from tests.live.waiting import timeout, wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster
RED, BLUE = "policy-red", "policy-blue"
DEADLINE = 180.0
SERVER = ["python3", "-m", "http.server", "8000"]

POLICY = {
    "podSelector": {},
    "policyTypes": ["Ingress", "Egress"],
    "ingress": [{"from": [{"podSelector": {"matchLabels": {"role": "client"}}}], "ports": [{"port": "http"}]}],
    "egress": [
        {"to": [{"podSelector": {}}]},
        {
            "to": [
                {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
                }
            ],
            "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
        },
    ],
}


def pod(namespace: str, name: str, node: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "ghcr.io/cotenant/tools", "command": SERVER}
    container["ports"] = [{"name": "http", "containerPort": 8000}]
    meta = {"namespace": namespace, "name": name, "labels": {"role": name}}
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture(scope="module")
def tenants(local_cluster: "Cluster") -> "Iterator[Cluster]":
    """Two namespaces: red has a server and two others, blue an outsider; a Service in front of red's server."""
    items: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (RED, BLUE)
    ]
    service = {"selector": {"role": "server"}, "ports": [{"port": 80, "targetPort": "http"}]}
    meta = {"namespace": RED, "name": "server"}
    items.append({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service})
    items += [pod(RED, "server", "node-1"), pod(RED, "client", "node-2"), pod(RED, "stranger", "node-1")]
    items.append(pod(BLUE, "client", "node-1"))
    for item in items:  # service accounts come a moment after their namespace
        apply(local_cluster, item)
    for namespace in (RED, BLUE):
        local_cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod", "--all", timeout(180))
    yield local_cluster
    local_cluster.kubectl("delete", "namespace", RED, BLUE, "--wait")


def apply(cluster: "Cluster", item: dict[str, Any]) -> None:
    def applied() -> bool:
        try:
            return bool(cluster.kubectl("apply", "-f", "-", stdin=json.dumps(item)))
        except LocalError as error:
            if "serviceaccount" not in str(error):
                raise
            return False

    wait_until(applied, "the service account of the pod", seconds=DEADLINE)


def reaches(cluster: "Cluster", namespace: str, name: str, url: str) -> bool:
    script = f"curl -s -o /dev/null -m 2 {url} && echo yes || echo no"
    return cluster.kubectl("-n", namespace, "exec", name, "--", "/bin/sh", "-c", script).strip() == "yes"


def who_reaches_what(cluster: "Cluster") -> dict[str, bool]:
    def address(namespace: str, name: str) -> str:
        return cluster.kubectl("-n", namespace, "get", "pod", name, "-o", "jsonpath={.status.podIP}")

    server, outsider = address(RED, "server"), address(BLUE, "client")
    tries = {
        "client to server across nodes": (RED, "client", f"http://{server}:8000"),
        "client to server by name": (RED, "client", "http://server"),
        "stranger to server on its node": (RED, "stranger", f"http://{server}:8000"),
        "other tenant to server": (BLUE, "client", f"http://{server}:8000"),
        "server to other tenant": (RED, "server", f"http://{outsider}:8000"),
        "server to itself": (RED, "server", f"http://{server}:8000"),
        "other tenant to itself": (BLUE, "client", f"http://{outsider}:8000"),
    }
    return {what: reaches(cluster, *arguments) for what, arguments in tries.items()}


def test_a_policy_isolates_both_ways_at_once_and_its_end_opens_everything(tenants: "Cluster") -> None:
    want = {
        "client to server across nodes": True,
        "client to server by name": True,
        "stranger to server on its node": False,
        "other tenant to server": False,
        "server to other tenant": False,
        "server to itself": True,
        "other tenant to itself": True,
    }
    wait_for(tenants, dict.fromkeys(want, True))
    meta = {"namespace": RED, "name": "isolate"}
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": POLICY}
    apply(tenants, policy)
    wait_for(tenants, want)
    # A pod that comes later is under the policy from its first packet.
    late = pod(RED, "late", "node-2")
    target = tenants.kubectl("-n", BLUE, "get", "pod", "client", "-o", "jsonpath={.status.podIP}")
    script = f"curl -s -o /dev/null -m 2 http://{target}:8000 && echo reached || echo stopped"
    late["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", script]
    late["spec"]["restartPolicy"] = "Never"
    apply(tenants, late)
    tenants.kubectl("-n", RED, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/late", timeout(180))
    assert tenants.kubectl("-n", RED, "logs", "late").strip() == "stopped"
    tenants.kubectl("-n", RED, "delete", "networkpolicy", "isolate")
    wait_for(tenants, dict.fromkeys(want, True))


def wait_for(cluster: "Cluster", want: dict[str, bool]) -> None:
    seen: dict[str, bool] = {}

    def as_wanted() -> bool:
        seen.update(who_reaches_what(cluster))
        return seen == want

    wait_until(as_wanted, lambda: seen, seconds=DEADLINE)
