"""Two clusters of the same names and addresses, traffic on both: each hears itself only, and outlives the other."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.cluster import lifecycle, spec
from cotenant_local.cluster.lifecycle import Cluster
from cotenant_local.host import cgroup_claims
from cotenant_local.host.procfs import descendants
from tests.live.local.whole.test_nothing_stays import assert_nothing_stays, outer_process
from tests.live.waiting import timeout, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
UP = """
from cotenant_local.cluster import lifecycle, spec
cluster = lifecycle.up(sys.argv[1], spec.uniform(1, 0, "", ""), attached=True)
print("up", flush=True)
input()
"""
SERVE = 'cd /tmp && echo -n "$0" > index.html && exec python3 -m http.server 8000'
ASK = """
import time, urllib.request
heard = False
while True:
    try:
        print(urllib.request.urlopen("http://web.default.svc.cluster.local/", timeout=30).read().decode(), flush=True)
        heard = True
    except OSError as error:
        if heard:
            print(error, flush=True)
    time.sleep(0.2)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    for name in lifecycle.known():
        lifecycle.down(name)


def pod(name: str, *command: str) -> dict[str, Any]:
    container = {"name": "main", "image": "ghcr.io/cotenant/tools", "command": list(command)}
    metadata = {"name": name, "labels": {"app": name}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


def furnish(cluster: Cluster) -> None:
    """`web` says the cluster's name to `asks`, and a policy keeps `stranger` away from it."""
    service = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8000}]}
    asks = {"from": [{"podSelector": {"matchLabels": {"app": "asks"}}}]}
    policy = {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"], "ingress": [asks]}
    items = [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "web"},
            "spec": policy,
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service},
        pod("web", "sh", "-c", SERVE, cluster.name),
        pod("asks", "python3", "-c", ASK),
        pod("stranger", "sleep", "inf"),
    ]
    cluster.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", timeout(180))


def heard(cluster: Cluster) -> list[str]:
    return cluster.kubectl("logs", "asks").splitlines()


def forwarded(cluster: Cluster) -> str:
    """What `web` says by way of `kubectl port-forward`."""
    command = cluster.command("kubectl", "port-forward", "pod/web", ":8000", "--address=127.0.0.1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        assert forward.stdout is not None
        port = int(forward.stdout.readline().split("127.0.0.1:")[1].split()[0])
        try:
            return str(urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60).read().decode())
        finally:
            forward.kill()


def measured(cluster: Cluster) -> bool:
    done = subprocess.run(cluster.command("kubectl", "top", "pods"), capture_output=True, text=True, check=False)
    return {line.split()[0] for line in done.stdout.splitlines()[1:]} == {"web", "asks", "stranger"}


def test_two_clusters_with_the_same_names_and_addresses_do_not_meet_and_one_outlives_the_other() -> None:
    starts = [sys.executable, "-c", f"import sys{UP}", "one"]
    with subprocess.Popen(starts, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        one, two = lifecycle.find("one"), lifecycle.up("two", spec.uniform(1, 0, "", ""))
        for cluster in (one, two):
            furnish(cluster)
            wait_until(lambda: heard(cluster), "a pod to be answered by a Service")  # noqa: B023 (called at once)
            assert forwarded(cluster) == cluster.name
            assert "timed out" in cluster.kubectl(
                *("exec", "stranger", "--", "python3", "-c"),
                "import urllib.request; urllib.request.urlopen('http://web/', timeout=3)",
                expect=1,
            )
            wait_until(lambda: measured(cluster), "the pods to be measured")  # noqa: B023
        pids = descendants(outer_process(one.state))
        before = len(heard(two))
        parent.kill()
    wait_until(lambda: lifecycle.running() == ["two"], "the first cluster to end with its parent")
    assert_nothing_stays(pids, one.state, others=["two"])
    cgroup_claims.sweep()
    assert {
        group.name for group in cgroup_claims.ROOT.glob("*/cotenant-*") if group.name.endswith(("-one", "-two"))
    } <= {"cotenant-two"}
    wait_until(lambda: len(heard(two)) > before + 10, "the traffic of the second cluster to go on")
    assert set(heard(two)) == {"two"}
    assert forwarded(two) == "two"
