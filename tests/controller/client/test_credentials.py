"""Where the credentials of the API server come from."""

from __future__ import annotations

import pytest

from cotenant.controller.client.credentials import NoClusterError, load_configuration


def test_without_a_cluster_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", "/nonexistent")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoClusterError, match="set KUBECONFIG, or run in a pod"):
        load_configuration()
