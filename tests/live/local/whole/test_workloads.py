"""What people run on Kubernetes, as they write it: manifests of `workloads/` applied with kubectl, all at once."""

import base64
import json
import os
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cotenant_local.host.errors import LocalError
from tests.live.waiting import timeout, wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
MANIFESTS = Path(__file__).parent / "workloads"
NAMESPACE = "workloads"
DEADLINE = 150.0


class Workloads:
    """kubectl in the namespace of this module."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster = cluster

    def __call__(self, *arguments: str, stdin: str | None = None, expect: int = 0) -> str:
        return self.cluster.kubectl("-n", NAMESPACE, *arguments, stdin=stdin, expect=expect)

    def wait(self, what: str, condition: str) -> None:
        self("wait", f"--for={condition}", what, timeout(DEADLINE))

    def get(self, *what: str) -> Any:
        return json.loads(self("get", *what, "-o", "json"))


@pytest.fixture(scope="module")
def run(local_cluster: "Cluster") -> Iterator[Workloads]:
    workloads = Workloads(local_cluster)
    local_cluster.kubectl("create", "namespace", NAMESPACE)
    workloads("apply", "-f", str(MANIFESTS))
    yield workloads
    local_cluster.kubectl("delete", "namespace", NAMESPACE, "--wait")


def test_a_service_balances_over_the_pods_of_a_deployment(run: Workloads) -> None:
    run("rollout", "status", "deployment/web", timeout(DEADLINE))
    pods = {pod["metadata"]["name"] for pod in run.get("pods", "-l", "app=web")["items"]}
    program = (
        "import urllib.request\n"
        "print(*{urllib.request.urlopen('http://web').read().decode() for _ in range(30)}, sep='\\n')"
    )
    answered = run("exec", "deploy/web", "--", "python3", "-c", program).split()
    assert set(answered) == pods


def test_members_of_a_stateful_set_find_each_other_by_name(run: Workloads) -> None:
    addresses = {}
    for index in range(2):
        run.wait(f"pod/peer-{index}", "condition=Ready")
        addresses[f"peer-{index}.peers"] = run.get("pod", f"peer-{index}")["status"]["podIP"]
    for pod in ("peer-0", "peer-1"):
        wait_until(lambda pod=pod: "found everybody" in run("logs", pod), "the peers to find each other")  # type: ignore[misc]
        said = run("logs", pod)
        assert f"found everybody as {pod}" in said
        found = dict(line.split() for line in said.splitlines() if line.startswith("peer-"))
        assert found == addresses


def test_a_claim_gets_a_volume_that_outlives_the_pod_and_ends_with_the_claim(run: Workloads) -> None:
    run.wait("pod/ledger-0", "condition=Ready")
    run("delete", "pod", "ledger-0", "--wait")
    wait_until(lambda: run("get", "pods", "-l", "app=ledger", "-o", "name"), "the pod to come again")
    run.wait("pod/ledger-0", "condition=Ready")
    assert run("logs", "ledger-0") == "ledger-0\nledger-0\n"
    volume = run.get("pvc", "data-ledger-0")["spec"]["volumeName"]
    folder = run.cluster.state.volumes / volume
    assert (folder / "lines").is_file()
    run("delete", "statefulset", "ledger", "--cascade=foreground", "--wait")
    run("delete", "pvc", "data-ledger-0", "--wait")
    wait_until(lambda: not folder.exists(), "the volume's folder to go")
    run.cluster.kubectl("wait", "--for=delete", f"pv/{volume}", timeout(DEADLINE))


def test_a_claim_that_no_folder_can_meet_says_why(run: Workloads) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "block"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block",
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }
    run("apply", "-f", "-", stdin=json.dumps(claim))
    events = ("get", "events", "--field-selector=involvedObject.name=block,reason=ProvisioningFailed", "-o", "json")
    wait_until(lambda: json.loads(run(*events))["items"], "the refusal")
    assert "volumeMode Block is not provided" in json.loads(run(*events))["items"][0]["message"]


def test_limits_of_a_pod_as_a_whole_are_refused(run: Workloads) -> None:
    container = {"name": "main", "image": "ghcr.io/cotenant/tools", "command": ["sleep", "inf"]}
    spec = {"resources": {"limits": {"memory": "64Mi"}}, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "limited"}, "spec": spec}
    run("apply", "-f", "-", stdin=json.dumps(pod))
    run.wait("pod/limited", "jsonpath={.status.phase}=Failed")
    assert run.get("pod", "limited")["status"]["reason"] == "PodLevelResourcesNotSupported"


def test_kubectl_top_shows_what_nodes_and_pods_use(run: Workloads) -> None:
    run("rollout", "status", "deployment/web", timeout(DEADLINE))

    def top(*what: str) -> list[str]:
        try:
            return [line.split()[0] for line in run("top", *what, "--no-headers").splitlines()]
        except LocalError:  # not measured yet
            return []

    pods = sorted(pod["metadata"]["name"] for pod in run.get("pods", "-l", "app=web")["items"])
    wait_until(lambda: sorted(top("pods", "-l", "app=web")) == pods, "the pods to be measured")
    wait_until(lambda: top("nodes") == ["node-1", "node-2"], "the nodes to be measured")


def test_a_daemon_set_runs_on_every_node_in_the_nodes_network(run: Workloads) -> None:
    run("rollout", "status", "daemonset/everywhere", timeout(DEADLINE))
    pods = run.get("pods", "-l", "app=everywhere")["items"]
    where = {pod["spec"]["nodeName"]: pod["status"]["podIP"] for pod in pods}
    assert where == {"node-1": "10.89.0.10", "node-2": "10.89.0.11"}


def test_a_job_tries_again_and_a_hopeless_one_says_why(run: Workloads) -> None:
    run.wait("job/second-try", "condition=Complete")
    assert run("logs", "job/second-try") == "now\n"
    run.wait("job/hopeless", "condition=Failed")
    (pod,) = run.get("pods", "-l", "job-name=hopeless")["items"]
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (7, "Error", "why\n")


def test_a_sidecar_starts_before_the_job_and_does_not_keep_it_from_ending(run: Workloads) -> None:
    run.wait("job/with-sidecar", "condition=Complete")
    assert run("logs", "job/with-sidecar", "-c", "main") == "first\nsidecar\nmain\n"


def test_a_container_whose_liveness_probe_fails_is_restarted(run: Workloads) -> None:
    wait_until(lambda: run.get("pod", "unhealthy")["status"]["containerStatuses"][0]["restartCount"] >= 1, "a restart")


def test_projected_tokens_downward_api_and_sub_paths_are_in_the_pod(run: Workloads) -> None:
    run.wait("pod/volumes", "jsonpath={.status.phase}=Succeeded")
    colour, two, one, environment, token = run("logs", "volumes").splitlines()
    node = run.get("pod", "volumes")["spec"]["nodeName"]
    assert (colour, two, environment) == ("blue", "second", f"{node} {64 * 2**20}")
    assert "No such file" in one
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert (claims["aud"], claims["kubernetes.io"]["pod"]["name"]) == (["vault"], "volumes")
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": ["vault"]},
    }
    answer = json.loads(run("create", "-f", "-", "-o", "json", stdin=json.dumps(review)))
    assert answer["status"]["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:default"


def test_the_pre_stop_hook_runs_before_the_signal(run: Workloads) -> None:
    run.wait("pod/last-words", "condition=Ready")
    follow = run.cluster.command("kubectl", "-n", NAMESPACE, "logs", "-f", "last-words")
    with subprocess.Popen(follow, stdout=subprocess.PIPE, text=True) as logs:
        assert logs.stdout is not None
        assert logs.stdout.readline() == "ready\n"
        run("delete", "pod", "last-words", "--wait")
        said = logs.stdout.readlines()
    # The kubelet itself adds a line when it asks once more about a container that is gone already.
    assert [line for line in said if not line.startswith("rpc error: code = NotFound")] == ["before\n", "stopped\n"]


def test_an_image_that_is_not_here_is_refused_with_the_list_of_those_that_are(run: Workloads) -> None:
    def waiting() -> dict[str, str]:
        statuses = run.get("pod", "unknown-image")["status"].get("containerStatuses") or [{"state": {}}]
        found: dict[str, str] = statuses[0]["state"].get("waiting", {})
        return found

    wait_until(lambda: waiting().get("reason") in {"ErrImagePull", "ImagePullBackOff"}, "the refusal")
    assert "ghcr.io/cotenant/tools" in waiting()["message"]


def test_a_pod_may_do_what_its_service_account_may_and_nothing_else(run: Workloads) -> None:
    run.wait("pod/asks-the-api", "jsonpath={.status.phase}=Succeeded")
    assert run("logs", "asks-the-api") == "configmaps/settings 200\nsecrets 403\n"


def test_exec_passes_on_streams_and_exit_code(run: Workloads) -> None:
    run("rollout", "status", "deployment/web", timeout(DEADLINE))
    assert run("exec", "-i", "deploy/web", "--", "cat", stdin="through\n") == "through\n"
    said = run("exec", "deploy/web", "--", "sh", "-c", "echo aloud >&2; exit 5", expect=5)
    assert "aloud" in said


def test_files_are_copied_in_and_out(run: Workloads, tmp_path: Path) -> None:
    pod = run.get("pods", "-l", "app=web")["items"][0]["metadata"]["name"]
    content = os.urandom(200_000)
    (tmp_path / "out").write_bytes(content)
    run("cp", str(tmp_path / "out"), f"{pod}:/tmp/copied")
    run("cp", f"{pod}:/tmp/copied", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content


def test_a_port_is_forwarded(run: Workloads) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = run.cluster.command("kubectl", "-n", NAMESPACE, "port-forward", "service/web", f"{port}:80")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        assert forward.stdout is not None
        assert "Forwarding from 127.0.0.1" in forward.stdout.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=DEADLINE) as answer:
            assert answer.read().decode().startswith("web-")
        forward.terminate()


def test_eviction_honours_a_disruption_budget(run: Workloads) -> None:
    run("rollout", "status", "deployment/web", timeout(DEADLINE))
    pod = run.get("pods", "-l", "app=web")["items"][0]["metadata"]["name"]
    eviction = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    wait_until(lambda: run.get("pdb", "web")["status"].get("currentHealthy") == 2, "the budget to see both pods")
    assert "disruption budget" in run("create", "--raw", path, "-f", "-", stdin=eviction, expect=1)
    run("patch", "pdb", "web", "--type=merge", "-p", '{"spec":{"minAvailable":1}}')
    wait_until(lambda: run.get("pdb", "web")["status"]["disruptionsAllowed"] == 1, "the budget to allow one")
    run("create", "--raw", path, "-f", "-", stdin=eviction)
    run("wait", "--for=delete", f"pod/{pod}", timeout(DEADLINE))
    run("rollout", "status", "deployment/web", timeout(DEADLINE))


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ("outgrows-its-volume", 'EmptyDir volume "scratch" exceeds'),
        ("outgrows-its-layer", "local storage usage exceeds"),
    ],
)
def test_a_pod_that_writes_more_than_it_may_is_evicted(run: Workloads, pod: str, reason: str) -> None:
    wait_until(lambda: run.get("pod", pod)["status"].get("reason") == "Evicted", f"{pod} to be evicted")
    assert reason in run.get("pod", pod)["status"]["message"]


def test_a_drained_node_is_left_by_all_but_daemons(run: Workloads) -> None:
    run("patch", "pdb", "web", "--type=merge", "-p", '{"spec":{"minAvailable":0}}')
    try:
        only_here = ["--ignore-daemonsets", "--delete-emptydir-data", "--force", timeout(DEADLINE)]
        run("drain", "node-2", *only_here, "--pod-selector=app in (web, peers, everywhere)")
        left = run.get("pods", "--field-selector=spec.nodeName=node-2", "-l", "app")["items"]
        assert {pod["metadata"]["labels"]["app"] for pod in left} == {"everywhere"}
        run("rollout", "status", "deployment/web", timeout(DEADLINE))
    finally:
        run("uncordon", "node-2")


def test_a_cron_job_starts_every_minute(run: Workloads) -> None:
    def started() -> list[str]:
        jobs = run.get("jobs")["items"]
        return [job["metadata"]["name"] for job in jobs if job["metadata"]["name"].startswith("every-minute-")]

    wait_until(started, "the first job of the cron job")
    assert re.fullmatch(r"every-minute-\d+", started()[0])
