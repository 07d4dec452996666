"""The metrics API as the API server asks it."""

import http.client
import json
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.cluster.certificates import CertificateAuthority
from cotenant_local.host.api_client import ApiError
from cotenant_local.metrics.metrics_api import MetricsApi, listen
from cotenant_local.metrics.rates import UsageRate


class Kubelets:
    """What the collector knows."""

    def __init__(self, *names: str) -> None:
        used = UsageRate(250_000_000, 3 << 20, 1.7e9, 10.0)
        self.nodes: dict[str, dict[tuple[str, ...], UsageRate]] = {
            "node-1": {(): used, **{("default", "web", name): used for name in names}}
        }


def pod(*containers: str) -> dict[str, Any]:
    meta = {"name": "web", "namespace": "default", "labels": {"app": "web"}, "annotations": {"a": "b"}}
    statuses = [{"name": name, "state": {"running": {}}} for name in containers]
    ended = {"name": "before", "state": {"terminated": {}}}
    status = {"containerStatuses": statuses, "initContainerStatuses": [ended]}
    return {"metadata": meta, "spec": {"nodeName": "node-1"}, "status": status}


class Objects:
    """An API server with one pod; remembers what it was asked."""

    def __init__(self, only: dict[str, Any]) -> None:
        self.only, self.asked = only, ""

    def call(self, method: str, path: str) -> dict[str, Any]:
        self.asked = f"{method} {path}"
        return self.only if path.split("?", maxsplit=1)[0].endswith("/web") else {"items": [self.only]}


def answers(api: Any, collector: Any) -> MetricsApi:
    return MetricsApi(api, collector)


def test_selectors_are_the_api_servers_and_the_figures_are_added_to_its_answer() -> None:
    api = Objects(pod("main", "side"))
    path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb&limit=500"
    (item,) = answers(api, Kubelets("main", "side")).get(path)["items"]
    assert api.asked == "GET /api/v1/namespaces/default/pods?labelSelector=app%3Dweb"
    assert item == {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "timestamp": "2023-11-14T22:13:20Z",
        "window": "10.000s",
        "containers": [
            {"name": "main", "usage": {"cpu": "250000000n", "memory": "3072Ki"}},
            {"name": "side", "usage": {"cpu": "250000000n", "memory": "3072Ki"}},
        ],
    }


def test_a_pod_is_not_told_in_part() -> None:
    path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
    half = answers(Objects(pod("main", "side")), Kubelets("main"))
    assert half.get(path)["items"] == []
    with pytest.raises(ApiError, match="404: pods web has not been measured yet"):
        half.get(f"{path}/web")


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    """The authorities of a cluster, the API server's certificate as a front proxy, and that of a stranger."""
    CertificateAuthority(tmp_path, "ca").issue("metrics-serving", common_name="metrics", hosts=("127.0.0.1",))
    CertificateAuthority(tmp_path, "front-proxy-ca").issue("front-proxy-client", common_name="front-proxy-client")
    CertificateAuthority(tmp_path, "ca").issue("stranger", common_name="kubernetes-admin", groups=("system:masters",))
    return tmp_path


def test_only_the_api_server_is_answered(pki: Path) -> None:
    server = listen(("127.0.0.1", 0), pki, answers(Objects(pod("main")), Kubelets("main")))
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def ask(identity: str) -> tuple[int, Any]:
        tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        tls.load_cert_chain(pki / f"{identity}.crt", pki / f"{identity}.key")
        connection = http.client.HTTPSConnection("127.0.0.1", server.server_port, context=tls, timeout=60)
        connection.request("GET", "/apis/metrics.k8s.io/v1beta1/pods")
        answer = connection.getresponse()
        return answer.status, json.load(answer)

    status, document = ask("front-proxy-client")
    assert (status, [item["metadata"]["name"] for item in document["items"]]) == (200, ["web"])
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask("stranger")
    server.shutdown()
    server.server_close()


def test_what_there_is_can_be_discovered_and_all_else_is_not_found() -> None:
    known = answers(Objects(pod()), Kubelets())
    names = [resource["name"] for resource in known.get("/apis/metrics.k8s.io/v1beta1")["resources"]]
    assert names == ["nodes", "pods"]
    with pytest.raises(ApiError, match=r"404: /apis/metrics\.k8s\.io/v1beta1/secrets is not part of metrics\.k8s\.io"):
        known.get("/apis/metrics.k8s.io/v1beta1/secrets")
