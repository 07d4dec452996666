"""Questions to the installed operator through the real API server: who asks, who is shown, who is refused."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cotenant_local.host.patience import stretched
from tests.live.waiting import timeout, wait_until

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
            for name in (RED, BLUE, GREEN)
        ),
    ],
}
FORGED = """
import http.client, ssl, sys
context = ssl._create_unverified_context()
connection = http.client.HTTPSConnection(sys.argv[1], 10250, timeout=5, context=context)
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
    """A job without an end. Only its place among the waiting jobs matters."""
    return {
        "apiVersion": "cotenant.dev/v1beta1",
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
    def success() -> subprocess.CompletedProcess[str] | None:
        done = ask()
        return None if done.returncode else done

    return wait_until(success, lambda: ask().stderr, seconds=seconds).stdout


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
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=stretched(30))


def explanation(cluster: Cluster, namespace: str, name: str, who: str) -> dict[str, Any]:
    """The explanation, as soon as the job waits and every other job is placed."""

    def answer() -> dict[str, Any]:
        return dict(json.loads(answered(lambda: raw(cluster, path_of(namespace, name), who))))

    def third() -> dict[str, Any]:
        found = answer()
        return found if found["status"].get("position") == 3 else {}

    return wait_until(third, answer)


def test_a_tenant_sees_their_own_jobs_by_name_and_those_of_others_by_size(cluster: Cluster) -> None:
    about = explanation(cluster, RED, "asked", RED)["status"]
    assert (about["standing"], about["position"]) == ("Waiting", 3)
    shown = {one["job"]: one["asks"] for one in about["ahead"]}
    assert shown == {f"{RED}/older": "2 GPUs", "a job of another tenant": "3 GPUs"}
    assert BLUE not in json.dumps(about)


def test_who_may_read_all_jobs_sees_all_names(cluster: Cluster) -> None:
    explanation(cluster, RED, "asked", RED)
    about = json.loads(cluster.kubectl("get", "--raw", path_of(RED, "asked")))["status"]
    assert sorted(one["job"] for one in about["ahead"]) == [f"{BLUE}/between", f"{RED}/older"]


def test_an_outsider_is_refused(cluster: Cluster) -> None:
    done = raw(cluster, path_of(RED, "asked"), BLUE)
    assert (done.returncode, "Forbidden" in done.stderr) == (1, True)


def test_a_job_that_is_not_there_is_not_found(cluster: Cluster) -> None:
    answered(lambda: raw(cluster, path_of(RED, "asked"), RED))
    assert "NotFound" in raw(cluster, path_of(RED, "nobody"), RED).stderr


def test_headers_without_the_certificate_of_the_api_server_count_for_nothing(cluster: Cluster) -> None:
    """The request comes from the operator's own pod, which the NetworkPolicy lets reach the port."""
    label = "app.kubernetes.io/component=operator"
    pods = json.loads(cluster.kubectl("get", "pods", "-n", SYSTEM, "-l", label, "-o", "json"))["items"]
    for pod in pods:
        command = ["exec", "-n", SYSTEM, pod["metadata"]["name"], "--", "python", "-c", FORGED]
        answer = cluster.kubectl(*command, pod["status"]["podIP"], path_of(RED, "asked"))
        assert answer.startswith("401 "), answer


def test_the_command_explains_with_the_token_of_a_tenant(cluster: Cluster, tmp_path: Path) -> None:
    explanation(cluster, RED, "asked", RED)
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    token = cluster.kubectl("create", "token", "asker", "-n", RED).strip()
    config["users"] = [{"name": one["name"], "user": {"token": token}} for one in config["users"]]
    mine = tmp_path / "kubeconfig"
    mine.write_text(yaml.safe_dump(config))

    def cotenant(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cotenant", *words]
        environment = os.environ | {"KUBECONFIG": str(mine)}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=stretched(60), env=environment
        )

    told, refused = cotenant("why", "asked", "-n", RED), cotenant("why", f"{BLUE}/between")
    assert f"{RED}/asked waits in queue {RED} for 4 GPUs: WaitingFor" in told.stdout, told
    assert "Place 3 in line. Before it:\n  a job of another tenant, 3 GPUs: " in told.stdout
    assert (refused.returncode, "cannot get resource" in refused.stderr) == (4, True)
    smaller = cotenant("whatif", f"{RED}/asked", "--set", "gpu.count=9")
    assert f"{RED}/asked would wait for 9 GPUs: ExceedsCluster" in smaller.stdout, smaller
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(job(RED, "new", 1)))
    new = cotenant("whatif", "-f", str(manifest))
    assert f"{RED}/new would wait for 1 GPU: WaitingForGPUs" in new.stdout, new
    assert f"{RED} " in (offered := cotenant("offer", "-n", RED)).stdout, offered
    listed = cotenant("ps", "-n", RED)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["NAME", "older", "asked"], listed
    assert cotenant("queues").returncode == 4, "no viewer of queues"
    assert cotenant("nodes", "--needed").returncode == 4
    tree = json.loads(cluster.kubectl("get", "--raw", "/apis/query.cotenant.dev/v1alpha1/queuetrees"))["items"]
    used = [one for one in tree if one["metadata"]["name"] in {"asks", GREEN}]
    assert [(one["metadata"]["name"], one["status"]["used"]) for one in used] == [("asks", "8"), (GREEN, "8")]


def test_an_administrator_asks_about_the_cluster(cluster: Cluster) -> None:
    """The command line asks, on the cluster that the tests above have left."""
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}

    def cotenant(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cotenant", *words]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=stretched(60), env=environment
        )

    said = cotenant("whatif", "queue", GREEN, "gpus", "+1")
    assert (said.returncode, "To do it: kubectl patch queue" in said.stdout) == (0, True), said
    assert cotenant("whatif", "node", "no-such-node", "drain").returncode == 3
    gpus, nodes = cotenant("gpus"), cotenant("nodes")
    assert ("8 GPUs: 8 held" in gpus.stdout, nodes.returncode) == (True, 0), (gpus, nodes)
    needed = cotenant("nodes", "--needed")
    assert (needed.returncode, " of 3 jobs" in needed.stdout) == (0, True), needed


def test_another_leader_goes_on_answering(cluster: Cluster) -> None:
    def holder() -> str:
        lease = json.loads(cluster.kubectl("get", "lease", "cotenant-operator", "-n", SYSTEM, "-o", "json"))
        return str(lease["spec"].get("holderIdentity") or "").rpartition("_")[0]

    def addresses() -> list[str]:
        found = json.loads(cluster.kubectl("get", "endpointslice", "cotenant-query-ipv4", "-n", SYSTEM, "-o", "json"))
        return [address for one in found["endpoints"] or [] for address in one["addresses"]]

    explanation(cluster, RED, "asked", RED)
    before, led = addresses(), holder()
    cluster.kubectl("delete", "pod", led, "-n", SYSTEM)
    wait_until(lambda: addresses() != before, "the new leader publishes its address")
    assert explanation(cluster, RED, "asked", RED)["status"]["position"] == 3
    assert holder() != led


def test_a_run_is_stopped_resumed_and_told_of_when_its_object_is_gone(cluster: Cluster, tmp_path: Path) -> None:
    """An account that may edit stops and resumes it. An account that may read sees the records."""
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(f'#!/bin/sh\nexec {shlex.join(cluster.command("kubectl"))} "$@"\n')
    kubectl.chmod(0o755)
    path = f"{kubectl.parent}:{os.environ['PATH']}"
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig), "PATH": path}

    def cotenant(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cotenant", *words]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=stretched(180), env=environment
        )

    explanation(cluster, RED, "asked", RED)

    def attached() -> subprocess.CompletedProcess[str]:
        return cotenant("attach", f"{GREEN}/first", "--rank", "1", "--", "echo", "hello")

    wait_until(lambda: "hello" in attached().stdout, attached, seconds=120)
    assert "names no checkpoint" in cotenant("drill", f"{GREEN}/first", "--yes").stderr
    stopped = cotenant("stop", f"{GREEN}/first", "--wait", "--timeout", "120")
    assert f"{GREEN}/first has given its GPUs back after" in stopped.stdout, stopped
    resumed = cotenant("resume", f"{GREEN}/first")
    assert "waits for its place again" in resumed.stdout, resumed
    refused = cotenant("retry", f"{GREEN}/first")
    assert (refused.returncode, "not over" in refused.stderr) == (1, True)
    cluster.kubectl("delete", "trainingjob", "first", "-n", GREEN)
    wait_until(lambda: "first" in cotenant("history", "-n", GREEN).stdout, "the run is in the history", seconds=60)
    assert "Deleted" in cotenant("history", "-n", GREEN).stdout
    about = cotenant("history", f"{GREEN}/first")
    assert "Admitted: workers on" in about.stdout, about
    assert "Suspended" in about.stdout
    assert cotenant("cost", "-n", GREEN).stdout.count(f"{GREEN}/first") == 1
    (tmp_path / "train.py").write_text("print('hello')")
    plain = ("--folder", str(tmp_path), "--name", "script", str(tmp_path / "train.py"))
    new = cotenant("submit", "--yes", "-n", GREEN, *plain)
    assert f"{GREEN}/script would " in new.stdout, new
    code = json.loads(cluster.kubectl("get", "configmap", "script-code", "-n", GREEN, "-o", "json"))
    assert [one["name"] for one in code["metadata"]["ownerReferences"]] == ["script"]
    cluster.kubectl("delete", "trainingjob", "script", "-n", GREEN)
    cluster.kubectl("wait", "--for=delete", "configmap/script-code", "-n", GREEN, timeout(60))
    theirs = raw(cluster, f"/apis/query.cotenant.dev/v1alpha1/namespaces/{GREEN}/runs", RED)
    assert (theirs.returncode, "Forbidden" in theirs.stderr) == (1, True)
    assert "a decision on " in (saved := cotenant("capsule", str(tmp_path / "capsule"))).stdout, saved
    assert "The same plan, to the byte" in (again := cotenant("replay", str(tmp_path / "capsule"))).stdout, again
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job(GREEN, "first", 4, workers=2)))
