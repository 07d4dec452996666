"""The API server misbehaves on purpose, as much as asked for and no more; who a client is stays what it was."""

import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cotenant_local.host.errors import LocalError
from tests.live.waiting import timeout, wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def faulty(api_server: "Cluster") -> Iterator["Cluster"]:
    yield api_server
    api_server.api_faults()


def connect(cluster: "Cluster", identity: str) -> http.client.HTTPSConnection:
    server = json.loads(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    tls = ssl.create_default_context(cafile=str(cluster.state.pki / "ca.crt"))
    tls.load_cert_chain(cluster.state.pki / f"{identity}.crt", cluster.state.pki / f"{identity}.key")

    def connected() -> http.client.HTTPSConnection | None:
        connection = http.client.HTTPSConnection(server.removeprefix("https://"), context=tls, timeout=90)
        try:
            connection.connect()
        except (ConnectionError, ssl.SSLError):  # the forward is just changing its target
            return None
        return connection

    return wait_until(connected, "a connection to the API server")


def codes(cluster: "Cluster", requests: int) -> list[int]:
    connection = connect(cluster, "admin")
    seen = []
    for _ in range(requests):
        connection.request("GET", "/api/v1/namespaces/default")
        answer = connection.getresponse()
        answer.read()
        seen.append(answer.status)
    return seen


def test_the_same_seed_refuses_the_same_requests(faulty: "Cluster") -> None:
    drawn = []
    for _ in range(2):
        faulty.api_faults(error_rate=0.4, error_codes=[429, 500], seed=7)
        drawn.append(codes(faulty, 40))
    assert drawn[0] == drawn[1]
    assert set(drawn[0]) == {200, 429, 500}


def test_a_conflict_is_only_told_to_those_who_change_something(faulty: "Cluster") -> None:
    faulty.api_faults(error_rate=1, error_codes=[409])
    assert codes(faulty, 5) == [200] * 5
    said = faulty.kubectl("create", "configmap", "conflicting", expect=1)
    assert "injected fault: the object has been modified" in said


def test_a_lost_answer_does_not_undo_what_was_carried_out(faulty: "Cluster") -> None:
    faulty.api_faults(lost_rate=1)
    connection = connect(faulty, "admin")
    body = json.dumps({"metadata": {"name": "lost"}})
    connection.request("POST", "/api/v1/namespaces/default/configmaps", body, {"Content-Type": "application/json"})
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        connection.getresponse()
    faulty.api_faults()
    connect(faulty, "admin").close()
    assert faulty.kubectl("get", "configmap", "lost", "-o", "name").strip() == "configmap/lost"


def test_latency_is_added_to_every_request(faulty: "Cluster") -> None:
    faulty.api_faults(latency_ms=200)
    connection = connect(faulty, "admin")
    begun = time.monotonic()
    for _ in range(3):
        connection.request("GET", "/version")
        connection.getresponse().read()
    assert time.monotonic() - begun >= 0.6


def test_a_watch_breaks_in_the_middle(faulty: "Cluster") -> None:
    faulty.api_faults(cuts_per_min=600)
    connection = connect(faulty, "admin")
    connection.request("GET", "/api/v1/namespaces?watch=true&timeoutSeconds=300")
    with pytest.raises((http.client.IncompleteRead, ConnectionError, ssl.SSLError)):
        connection.getresponse().read()


def test_other_clients_are_left_alone(faulty: "Cluster") -> None:
    faulty.api_faults(error_rate=1, error_codes=[500], only_user_like="kubectl")
    assert codes(faulty, 5) == [200] * 5
    assert "injected fault" in faulty.kubectl("get", "--raw", "/version", expect=1)


def test_pods_meet_the_faults_too(local_cluster: "Cluster") -> None:
    run = ["run", "asker", "--image=ghcr.io/cotenant/tools", "--restart=Never", "--grace-period=1", "--command", "--"]
    local_cluster.kubectl(*run, "sleep", "inf")
    local_cluster.kubectl("wait", "--for=condition=Ready", "pod/asker", timeout(180))

    def until_it_meets(want: str) -> None:
        """The way to the API server changes for outside and inside, one after the other."""
        authority = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
        curl = f"curl -s --cacert {authority} -w '%{{http_code}}' -o /dev/null"
        script = f"{curl} https://kubernetes.default.svc.cluster.local/readyz; true"

        def meets_it() -> bool:
            with contextlib.suppress(LocalError):
                return local_cluster.kubectl("exec", "asker", "--", "sh", "-c", script) == want
            return False

        wait_until(meets_it, f"a pod meets {want}")

    try:
        until_it_meets("200")
        local_cluster.api_faults(error_rate=1, error_codes=[503], only_user_like="curl")
        until_it_meets("503")
        local_cluster.api_faults()
        until_it_meets("200")
    finally:
        local_cluster.api_faults()
        local_cluster.kubectl("delete", "pod", "asker", "--wait")


@pytest.mark.parametrize("identity", ["admin", "kube-proxy"])
def test_nobody_becomes_somebody_else_on_the_way(faulty: "Cluster", identity: str) -> None:
    faulty.api_faults(jitter_ms=1)
    connection = connect(faulty, identity)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    headers = {"Content-Type": "application/json", "X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    connection.request("POST", path, json.dumps(review), headers)
    info = json.loads(connection.getresponse().read())["status"]["userInfo"]
    want = {
        "admin": ("kubernetes-admin", ["system:masters", "system:authenticated"]),
        "kube-proxy": ("system:kube-proxy", ["system:authenticated"]),
    }
    assert (info["username"], info["groups"]) == want[identity]


def test_nonsense_is_refused_and_changes_nothing(faulty: "Cluster") -> None:
    with pytest.raises(LocalError, match="error_rate: Input should be less than or equal to 1"):
        faulty.api_faults(error_rate=2)
    assert codes(faulty, 3) == [200] * 3


def test_without_a_cluster_there_is_nothing_to_break(api_server: "Cluster") -> None:
    from cotenant_local.cluster import lifecycle

    with pytest.raises(LocalError, match=r"there is no cluster 'nobody' up \(up are: .*test-"):
        lifecycle.find("nobody")
