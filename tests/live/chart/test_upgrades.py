"""An upgrade, a rollback, an uninstall and the release after it, while a job runs and another waits."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.live.waiting import wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

TEAM = "walked"
QUEUE = {"name": TEAM, "spec": {"namespaces": [TEAM], "quotas": [{"guaranteed": 1, "limit": 1}]}}
FIRST = {"agent": {"simulate": True}, "queues": [QUEUE]}
SECOND = {
    "agent": {"simulate": True, "pollSeconds": 3},
    "operator": {"settings": {"log_level": "debug", "history_half_life_s": 3600}},
    "queues": [QUEUE | {"name": "renamed"}, {"name": "added", "spec": {"quotas": [{"guaranteed": 1}]}}],
}


def job(name: str) -> str:
    spec = {
        "queue": TEAM,
        "gpu": {"count": 1},
        "resources": {"cpu": "50m", "memory": "128Mi"},
        "runtime": {"command": ["sleep", "3600"]},
    }
    metadata = {"name": name, "namespace": TEAM}
    return yaml.safe_dump(
        {"apiVersion": "cotenant.dev/v1beta1", "kind": "TrainingJob", "metadata": metadata, "spec": spec}
    )


@pytest.fixture
def team(local_cluster: "Cluster") -> Iterator["Cluster"]:
    labels = {"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM, "labels": labels}}
    local_cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(namespace))
    yield local_cluster
    local_cluster.kubectl("delete", "namespace", TEAM)


def status(cluster: "Cluster", name: str) -> dict[str, Any]:
    found = json.loads(cluster.kubectl("get", "trainingjob", name, "-n", TEAM, "-o", "json"))
    return dict(found.get("status") or {})


def pods(cluster: "Cluster") -> dict[str, tuple[str, str]]:
    """Name → (uid, phase) of the team's pods."""
    found = json.loads(cluster.kubectl("get", "pods", "-n", TEAM, "-o", "json"))["items"]
    return {one["metadata"]["name"]: (one["metadata"]["uid"], one["status"]["phase"]) for one in found}


def certificate(cluster: "Cluster") -> str:
    """That of /metrics."""
    return cluster.kubectl(
        "get", "secret", "cotenant-metrics-serving", "-n", "cotenant-system", "-o", "jsonpath={.data}"
    )


def becomes(cluster: "Cluster", name: str, wanted: Mapping[str, str]) -> dict[str, Any]:
    def as_wanted() -> dict[str, Any]:
        found = status(cluster, name)
        return found if {key: found.get(key) for key in wanted} == wanted else {}

    return wait_until(as_wanted, lambda: status(cluster, name), seconds=120)


def test_upgrade_rollback_uninstall_and_another_release_leave_what_runs_alone(
    team: "Cluster", install: Callable[..., Any]
) -> None:
    with install(team, FIRST, wait=True) as release:
        team.kubectl("apply", "-f", "-", stdin=job("runs"))
        placed = becomes(team, "runs", {"phase": "Running"})["placement"]
        team.kubectl("apply", "-f", "-", stdin=job("waits"))
        becomes(team, "waits", {"phase": "Pending", "reason": "WaitingForQuota"})
        before, shown = pods(team), certificate(team)
        release.upgrade(SECOND, wait=True)
        becomes(team, "waits", {"phase": "Pending", "reason": "QueueNotFound"})
        assert (pods(team), certificate(team)) == (before, shown)
        release.rollback()
        becomes(team, "waits", {"phase": "Pending", "reason": "WaitingForQuota"})
        assert pods(team) == before
    assert pods(team) == before, "without a release it runs on, unwatched"
    with install(team, FIRST, wait=True):
        becomes(team, "waits", {"phase": "Pending", "reason": "WaitingForQuota"})
        found = status(team, "runs")
        assert (found["phase"], found["attempts"], found["placement"]) == ("Running", 1, placed)
        team.kubectl("delete", "trainingjob", "runs", "-n", TEAM)
        becomes(team, "waits", {"phase": "Running"})
        assert list(pods(team)) == ["waits-1-0"]
