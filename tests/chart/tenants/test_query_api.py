"""Questions to the installed operator through the real API server: who is answered, who is refused."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

SYSTEM, RED, BLUE, GREEN = "cotenant-system", "asks-red", "asks-blue", "asks-green"
VALUES = {
    "agent": {"simulate": True},
    "operator": {"replicas": 2, "settings": {"tick_s": 1}},
    "queues": [
        {"name": "asks", "spec": {"quotas": [{"guaranteed": 8}]}},
        *(
            {"name": name, "spec": {"parent": "asks", "namespaces": [name], "quotas": [{"guaranteed": 0}]}}
            for name in (RED, BLUE)
        ),
    ],
}
FORGED = """
import http.client, ssl, sys
context = ssl._create_unverified_context()
connection = http.client.HTTPSConnection(sys.argv[1], 8444, timeout=5, context=context)
headers = {"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"}
connection.request("GET", sys.argv[2], headers=headers)
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


def path_of(namespace: str, name: str) -> str:
    return f"/apis/query.cotenant.dev/v1alpha1/namespaces/{namespace}/explanations/{name}"


def documents() -> Iterator[dict[str, Any]]:
    for namespace in (RED, BLUE, GREEN):
        labels = {"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
        account = {"name": "asker", "namespace": namespace}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "asker", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        }


def job(namespace: str, name: str, gpus: int, workers: int = 1) -> dict[str, Any]:
    """It would run for ever: only its place in the line matters."""
    return {
        "apiVersion": "cotenant.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "queue": namespace,
            "workers": workers,
            "gpu": {"count": gpus},
            "resources": {"cpu": "50m", "memory": "256Mi"},
            "runtime": {"command": ["sleep", "3600"]},
        },
    }


def answered(ask: Callable[[], subprocess.CompletedProcess[str]], *, seconds: float = 90.0) -> str:
    deadline = time.monotonic() + seconds
    while (done := ask()).returncode:
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.5)
    return done.stdout


@pytest.fixture(scope="module")
def cluster(local_cluster: Cluster, install: Callable[..., Any]) -> Iterator[Cluster]:
    with install(local_cluster, VALUES, wait=True):
        local_cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents()))
        for one in (
            job(GREEN, "first", 4, workers=2),
            job(RED, "older", 2),
            job(BLUE, "between", 3),
            job(RED, "asked", 4),
        ):
            local_cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(one))
            time.sleep(1.1)  # ages have whole seconds
        yield local_cluster
        for namespace in (RED, BLUE, GREEN):
            local_cluster.kubectl("delete", "trainingjobs", "--all", "-n", namespace)
        local_cluster.kubectl("delete", "namespace", RED, BLUE, GREEN)


def raw(cluster: Cluster, path: str, who: str) -> subprocess.CompletedProcess[str]:
    command = cluster.command("kubectl", "get", "--raw", path, f"--as=system:serviceaccount:{who}:asker")
    groups = ("system:serviceaccounts", "system:authenticated")
    command += [f"--as-group={group}" for group in groups]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def test_an_outsider_is_refused(cluster: Cluster) -> None:
    done = raw(cluster, path_of(RED, "asked"), BLUE)
    assert (done.returncode, "Forbidden" in done.stderr) == (1, True)


def test_a_tenant_is_answered_about_their_own_job(cluster: Cluster) -> None:
    about = json.loads(answered(lambda: raw(cluster, path_of(RED, "asked"), RED)))
    assert (about["kind"], about["metadata"]) == ("Explanation", {"name": "asked", "namespace": RED})
    assert (about["status"]["queue"], about["status"]["asks"]) == (RED, "4 GPUs")


def test_a_job_that_is_not_there_is_not_found(cluster: Cluster) -> None:
    answered(lambda: raw(cluster, path_of(RED, "asked"), RED))
    assert "NotFound" in raw(cluster, path_of(RED, "nobody"), RED).stderr


def test_headers_without_the_certificate_of_the_api_server_count_for_nothing(cluster: Cluster) -> None:
    """From a pod that the network lets through to the port: the operator's own."""
    label = "app.kubernetes.io/component=operator"
    pods = json.loads(cluster.kubectl("get", "pods", "-n", SYSTEM, "-l", label, "-o", "json"))["items"]
    for pod in pods:
        command = ["exec", "-n", SYSTEM, pod["metadata"]["name"], "--", "python", "-c", FORGED]
        answer = cluster.kubectl(*command, pod["status"]["podIP"], path_of(RED, "asked"))
        assert answer.startswith("401 "), answer
