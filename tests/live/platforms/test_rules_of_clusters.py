"""An ordinary job trains on clusters whose administrators demand something of it. One cluster plays them in turn.

A mesh adds its proxy, a policy closes the namespace, Pod Security restricts it, or the API server cannot reach the
operator's pod, as behind the firewall of a managed control plane.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.live.e2e.tenancy import Tenancy
from tests.live.platforms.mesh import joins, mesh
from tests.live.platforms.training import ordinary_job, trains

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NAME = "v1alpha1.query.cotenant.dev"


@pytest.fixture
def meshed(platform: Tenancy, team: str) -> Iterator[str]:
    platform.cluster.kubectl("label", "namespace", team, "mesh=on")
    platform.apply(*mesh())
    yield team
    for kind in ("mutatingadmissionpolicy", "mutatingadmissionpolicybinding"):
        platform.cluster.kubectl("delete", kind, "mesh")


def test_an_ordinary_job_trains_in_a_namespace_of_a_mesh(platform: Tenancy, meshed: str) -> None:
    platform.wait(lambda: joins(platform, meshed), what="the mesh adds its proxy to pods that do not opt out")
    trains(platform, meshed)


def test_an_ordinary_job_trains_where_the_administrator_denies_all_traffic(platform: Tenancy, team: str) -> None:
    """Pods reach their own job and DNS, by the operator's policies alone."""
    deny = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    metadata = {"name": "deny-all", "namespace": team}
    platform.apply({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": deny})
    trains(platform, team)  # on two nodes: neither has four GPUs


def test_an_ordinary_job_trains_under_the_restricted_profile(platform: Tenancy, team: str) -> None:
    level = "pod-security.kubernetes.io"
    marks = [f"{level}/enforce=restricted", f"{level}/enforce-version=latest", f"{level}/warn=restricted"]
    platform.cluster.kubectl("label", "namespace", team, "--overwrite", *marks)
    trains(platform, team)


def test_a_pod_names_the_pull_secret_of_its_job(platform: Tenancy, team: str) -> None:
    job = ordinary_job(team, "private", workers=1)
    job["spec"]["runtime"] |= {"imagePullSecrets": [{"name": "team-registry"}], "command": ["sleep", "600"]}
    platform.apply(job)
    platform.wait_phase("private", "Running", namespace=team)
    (pod,) = platform.get("pods", "-n", team, "-l", "cotenant.dev/job=private")["items"]
    assert pod["spec"]["imagePullSecrets"] == [{"name": "team-registry"}]
    assert pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"


def aim(platform: Tenancy, port: int) -> None:
    """Send the API server to this port of the Service."""
    change = json.dumps({"spec": {"service": {"port": port}}})
    platform.cluster.kubectl("patch", "apiservice", NAME, "--type=merge", "-p", change)


@pytest.fixture
def closed(platform: Tenancy) -> Iterator[None]:
    aim(platform, 4430)
    yield
    aim(platform, 443)
    platform.wait(lambda: is_available(platform), what="the API of questions answers again")


def is_available(platform: Tenancy) -> bool:
    conditions = platform.get("apiservice", NAME)["status"].get("conditions") or []
    return any((one["type"], one["status"]) == ("Available", "True") for one in conditions)


def test_the_operator_says_within_a_minute_what_is_closed_and_jobs_train_meanwhile(
    platform: Tenancy, team: str, closed: None
) -> None:
    def told() -> list[str]:
        events = platform.get("events", "-n", "default")["items"]
        return [one["message"] for one in events if one["reason"] == "QueryAPIUnavailable"]

    (message, *_) = platform.wait(told, seconds=75, what="an Event says that the API server is kept from the operator")
    assert "10250" in message
    assert "query.enabled=false" in message
    trains(platform, team)
