"""Several clusters, clusters that remember, clusters that are reached from outside: each test starts its own."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_local.cluster import lifecycle, spec
from cotenant_local.host.errors import LocalError
from tests.live.waiting import timeout, wait_until

pytestmark = pytest.mark.cluster
NOTHING = spec.uniform(0, 0, "", "")
WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: ghcr.io/cotenant/tools
    command: [python3, -m, http.server, "8000"]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8000}]}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield tmp_path
    for name in lifecycle.known():
        lifecycle.down(name)


def test_two_clusters_run_side_by_side_and_do_not_know_each_other() -> None:
    one, two = lifecycle.up("one", NOTHING), lifecycle.up("two", NOTHING)
    assert lifecycle.running() == ["one", "two"]
    one.kubectl("create", "namespace", "only-here")
    assert "NotFound" in two.kubectl("get", "namespace", "only-here", expect=1)
    # Credentials of one cluster are refused by the other.
    stolen = two.command("kubectl", f"--certificate-authority={one.state.pki}/ca.crt", "get", "nodes")
    assert subprocess.run(stolen, capture_output=True, check=False).returncode != 0
    with pytest.raises(LocalError, match="cluster 'one' is up already"):
        lifecycle.up("one", NOTHING)
    lifecycle.down("one")
    assert two.kubectl("get", "--raw", "/readyz") == "ok"


def test_kept_state_comes_back_under_the_same_address(home: Path) -> None:
    kept = home / "kept"
    first = lifecycle.up("kept", spec.uniform(1, 0, "", ""), keep_in=kept)
    first.kubectl("apply", "-f", "-", stdin=WEB)
    first.kubectl("wait", "--for=condition=Ready", "pod/web", timeout(180))
    uid = first.kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.uid}")
    config = first.kubeconfig.read_text()
    lifecycle.down("kept")
    assert lifecycle.known() == []
    second = lifecycle.up("kept", spec.uniform(1, 0, "", ""), keep_in=kept)
    assert second.kubeconfig.read_text() == config
    wait = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1"
    second.kubectl("wait", wait, "pod/web", timeout(180))
    second.kubectl("wait", "--for=condition=Ready", "pod/web", timeout(180))
    assert second.kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.uid}") == uid


def test_a_service_is_reached_from_outside_even_if_it_comes_later() -> None:
    wanted = spec.parse({"nodes": [{"name": "only"}], "forwards": [{"service": "default/web:80"}]}, source="this test")
    cluster = lifecycle.up("forwarding", wanted)
    ((service, port),) = lifecycle.status("forwarding")["forwards"]
    assert service == "default/web:80"
    cluster.kubectl("apply", "-f", "-", stdin=WEB)

    def answer() -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=45)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0

    assert wait_until(answer, "the Service answers", seconds=180) == 200


def test_a_cluster_is_of_the_kinds_of_nodes_that_its_file_says(home: Path) -> None:
    file = home / "cluster.yaml"
    file.write_text(
        "nodes:\n"
        "- {name: big, cpu: 64, memory: 512Gi, ephemeralStorage: 2Gi, zone: a, gpus: {count: 8, class: H100},"
        " taints: ['gpu=yes:NoSchedule'], labels: {disk: fast}}\n"
        "- {name: small, count: 2, cpu: 1, memory: 1Gi, pods: 9, resources: {example.com/dongle: 2}}\n"
    )
    command = [sys.executable, "-m", "cotenant", "local", "up", "--name", "kinds", "--config", str(file)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cluster = lifecycle.find("kinds")
    assert Path(printed.strip()) == cluster.kubeconfig
    nodes = {n["metadata"]["name"]: n for n in json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]}
    shown = ("cpu", "memory", "ephemeral-storage", "pods", "example.com/dongle")
    offered = {name: [node["status"]["allocatable"].get(key) for key in shown] for name, node in nodes.items()}
    disk = offered["small-1"][2]
    small = ["1", "1Gi", disk, "9", "2"]
    assert offered == {"big": ["64", "512Gi", "2Gi", "110", None], "small-1": small, "small-2": small}
    big = nodes["big"]
    assert big["metadata"]["labels"].items() >= {"disk": "fast", "topology.kubernetes.io/zone": "a"}.items()
    assert big["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]


def test_a_shell_has_the_kubeconfig_and_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    lifecycle.up("shell", NOTHING)
    monkeypatch.setenv("SHELL", "/bin/sh")
    script = "kubectl version -o yaml && helm version --short && echo $KUBECONFIG"
    command = [sys.executable, "-m", "cotenant", "local", "shell", "--name", "shell"]
    environment = {**os.environ, "PATH": "/usr/sbin:/sbin"}
    done = subprocess.run(command, input=script, check=True, capture_output=True, text=True, env=environment)
    lines = done.stdout.splitlines()
    assert lines[-2:] == ["v4.1.4", str(lifecycle.find("shell").kubeconfig)]
    assert "serverVersion:" in lines
