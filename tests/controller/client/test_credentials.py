"""Sources of the credentials for the API server."""

from __future__ import annotations

import pytest
from kubernetes.client import Configuration

from cotenant.controller.client.credentials import NoClusterError, load_configuration, way_to


def test_without_a_cluster_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", "/nonexistent")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoClusterError, match="set KUBECONFIG, or run in a pod"):
        load_configuration()


@pytest.mark.parametrize(
    ("host", "no_proxy", "proxy"),
    [
        ("https://api.example.com", "", "http://p:3128"),
        ("https://10.96.0.1", "10.96.0.0/12", None),
        ("https://kubernetes.default.svc", ".svc", None),
    ],
)
def test_the_operator_asks_through_the_proxy_unless_the_server_is_left_out(
    host: str, no_proxy: str, proxy: str | None
) -> None:
    configuration = Configuration(host=host, proxy="http://p:3128", no_proxy=no_proxy, tls_server_name="api.internal")
    assert way_to(configuration) == {"proxy": proxy, "server_hostname": "api.internal"}
