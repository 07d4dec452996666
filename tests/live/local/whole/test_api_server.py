"""The control plane by itself: what the local cluster promises about its API server."""

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster


def test_the_server_says_which_kubernetes_it_is(api_server: "Cluster") -> None:
    version = json.loads(api_server.kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"] == "v1.36.3"


@pytest.mark.parametrize("check", ["readyz", "livez"])
def test_every_health_check_of_the_server_passes(api_server: "Cluster", check: str) -> None:
    assert api_server.kubectl("get", "--raw", f"/{check}") == "ok"


def test_a_stranger_is_refused(api_server: "Cluster") -> None:
    answer = api_server.kubectl("auth", "can-i", "list", "secrets", "--as=somebody", "-A", expect=1)
    assert answer.strip() == "no"


def test_the_audit_log_tells_who_did_what(api_server: "Cluster") -> None:
    api_server.kubectl("create", "configmap", "audited-here", "--from-literal=a=b")
    events = [json.loads(line) for line in (api_server.state.logs / "audit.log").read_text().splitlines()]
    (event,) = [e for e in events if e["verb"] == "create" and e.get("objectRef", {}).get("name") == "audited-here"]
    assert (event["user"]["username"], event["responseStatus"]["code"]) == ("kubernetes-admin", 201)


def test_pod_security_admission_holds_a_namespace_to_its_profile(api_server: "Cluster") -> None:
    api_server.kubectl("create", "namespace", "strict")
    api_server.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    said = api_server.kubectl("run", "loose", "--image=ghcr.io/cotenant/tools", "-n", "strict", expect=1)
    assert 'violates PodSecurity "restricted:latest"' in said
