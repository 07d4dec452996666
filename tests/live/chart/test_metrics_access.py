"""Access to `/metrics` of the installed operator and agents: real pods, real tokens, real network policies."""

import base64
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from cotenant_local.host.errors import LocalError
from tests.live.waiting import timeout
from tests.support.pod_sandbox import until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

SYSTEM, SCRAPERS, ELSEWHERE = "cotenant-system", "scrapers", "elsewhere"
VALUES = {
    "agent": {"simulate": True},
    "operator": {"replicas": 2},
    "metrics": {"readers": [{"name": "reader", "namespace": SCRAPERS}, {"name": "reader", "namespace": ELSEWHERE}]},
}
FETCH = """
import http.client, ssl, sys
host, port, name, path, token = sys.argv[1:]
try:
    if name:
        context = ssl.create_default_context(cafile="/certificate/tls.crt")
        connection = http.client.HTTPSConnection(host, int(port), timeout=3, context=context)
        context.check_hostname = False  # by address, as Prometheus asks; the name is checked below
        connection.connect()
        alternatives = [value for _, value in connection.sock.getpeercert()["subjectAltName"]]
        assert name in alternatives, alternatives
    else:
        connection = http.client.HTTPConnection(host, int(port), timeout=3)
    account = open("/var/run/secrets/kubernetes.io/serviceaccount/token").read()
    headers = {"Authorization": f"Bearer {account}"} if token == "own" else {"Authorization": token} if token else {}
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
except TimeoutError:
    print("timeout")
"""


CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)
    print("open")
except TimeoutError:
    print("timeout")
"""


class Server(NamedTuple):
    address: str
    name: str
    metric: str


def pod(name: str, namespace: str, certificate: str) -> list[dict[str, Any]]:
    """A pod whose account has its name, and the certificate that Prometheus trusts."""
    metadata = {"name": name, "namespace": namespace}
    mounts = [{"name": "certificate", "mountPath": "/certificate"}]
    container = {"name": "main", "image": "ghcr.io/cotenant/worker", "command": ["sleep", "3600"]}
    spec = {
        "serviceAccountName": name,
        "terminationGracePeriodSeconds": 0,
        "containers": [container | {"volumeMounts": mounts}],
        "volumes": [{"name": "certificate", "configMap": {"name": "certificate"}}],
    }
    config = {"metadata": {"name": "certificate", "namespace": namespace}, "data": {"tls.crt": certificate}}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", **config},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    ]


def written_certificate(cluster: "Cluster") -> str:
    """The leader's, once it has written it into the Secret that the chart makes empty."""

    def data() -> dict[str, str] | None:
        secret = json.loads(cluster.kubectl("get", "secret", "cotenant-metrics-serving", "-n", SYSTEM, "-o", "json"))
        data: dict[str, str] | None = secret.get("data")
        return data

    return base64.b64decode(until(data, 120, "a certificate of /metrics")["tls.crt"]).decode()


@pytest.fixture(scope="module")
def cluster(local_cluster: "Cluster", install: Callable[..., Any]) -> Iterator["Cluster"]:
    with install(local_cluster, VALUES, wait=True):
        certificate = written_certificate(local_cluster)
        documents: list[dict[str, Any]] = []
        for name, labels in ((SCRAPERS, {"cotenant.dev/metrics": "true"}), (ELSEWHERE, {})):
            metadata = {"name": name, "labels": labels}
            documents += [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}]
            documents += pod("reader", name, certificate) + pod("stranger", name, certificate)
        local_cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
        for name in (SCRAPERS, ELSEWHERE):
            local_cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "-n", name, timeout(120))
        for component in ("operator", "agent"):  # the kubelets bring the certificate into pods within two minutes
            asked = server(local_cluster, component)
            until(partial(served, local_cluster, asked), 180, f"/metrics of the {component}")
        yield local_cluster
        local_cluster.kubectl("delete", "namespace", SCRAPERS, ELSEWHERE)


def server(cluster: "Cluster", component: str) -> Server:
    label = f"app.kubernetes.io/component={component}"
    found = json.loads(cluster.kubectl("get", "pods", "-n", SYSTEM, "-l", label, "-o", "json"))["items"]
    metric = {"operator": "cotenant_leader", "agent": "cotenant_gpu_memory_bytes"}[component]
    return Server(found[0]["status"]["podIP"], f"cotenant-{component}.{SYSTEM}.svc", metric)


def fetch(cluster: "Cluster", who: str, asked: Server, *, port: int = 8443, path: str = "/metrics", token: str) -> str:
    namespace, _, name = who.partition("/")
    authority = asked.name if port == 8443 else ""
    command = ["python", "-c", FETCH, asked.address, str(port), authority, path, token]
    return cluster.kubectl("exec", "-n", namespace, name, "--", *command)


def served(cluster: "Cluster", asked: Server) -> bool:
    """Wait until the server has a certificate; before that, it refuses connections and the command fails."""
    try:
        return fetch(cluster, f"{SCRAPERS}/reader", asked, token="own").startswith("200 ")
    except LocalError:
        return False


@pytest.mark.parametrize("component", ["operator", "agent"])
def test_a_reader_reads_over_tls(cluster: "Cluster", component: str) -> None:
    asked = server(cluster, component)
    answer = fetch(cluster, f"{SCRAPERS}/reader", asked, token="own")
    assert (answer[:4], asked.metric in answer) == ("200 ", True)


@pytest.mark.parametrize("component", ["operator", "agent"])
@pytest.mark.parametrize(
    ("who", "token", "says"),
    [
        ("reader", "", "401 give the token of an account"),
        ("reader", "Bearer guessed", "401 give the token of an account"),
        ("stranger", "own", "403 this account may not get /metrics"),
    ],
    ids=["without a token", "with a guessed one", "as an account that may not"],
)
def test_nobody_else_reads(cluster: "Cluster", component: str, who: str, token: str, says: str) -> None:
    asked = server(cluster, component)
    answer = fetch(cluster, f"{SCRAPERS}/{who}", asked, token=token)
    assert (answer.startswith(says), asked.metric in answer) == (True, False)


@pytest.mark.parametrize("component", ["operator", "agent"])
@pytest.mark.parametrize("who", [f"{ELSEWHERE}/reader", f"{ELSEWHERE}/stranger"])
def test_from_other_namespaces_no_port_is_reached(cluster: "Cluster", component: str, who: str) -> None:
    asked = server(cluster, component)
    probes = {"operator": 8080, "agent": 8098}[component]
    answers = [fetch(cluster, who, asked, port=port, path="/healthz", token="own") for port in (8443, probes)]
    assert [answer.strip() for answer in answers] == ["timeout", "timeout"]


def test_an_operator_reaches_what_it_must_and_nothing_else(cluster: "Cluster") -> None:
    """The operator's own process tries it: its pod has no other program."""
    found = json.loads(cluster.kubectl("get", "pod", "reader", "-n", ELSEWHERE, "-o", "json"))
    address = found["status"]["podIP"]
    command = ["exec", "-n", SYSTEM, "deployment/cotenant-operator", "--", "python", "-c", CONNECT]
    assert cluster.kubectl(*command, address, "8099").strip() == "timeout", "no worker of ours"
    assert cluster.kubectl(*command, address, "80").strip() == "timeout"
    assert cluster.kubectl(*command, "kubernetes.default.svc", "443").strip() == "open"
