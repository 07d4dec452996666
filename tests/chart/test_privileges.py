"""The table of rights in docs/privileges.md is what the chart grants, and what the accounts really use.

What they use is in the API server's audit log: of this test's jobs, and of all that ran on the cluster before.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

TABLE = Path(__file__).parents[2] / "docs" / "privileges.md"
ROW = re.compile(r"\| (operator|agent) \| `([^`]+)` \| ([a-z, ]+) \| (.+?) \| (.*)\|")
NAMESPACE, TEAM = "cotenant-system", "audited"
ACCOUNTS = {f"system:serviceaccount:{NAMESPACE}:cotenant-{part}": part for part in ("operator", "agent")}
QUEUE = {"name": TEAM, "spec": {"namespaces": [TEAM], "quotas": [{"guaranteed": 8}]}}
VALUES = {"agent": {"simulate": True}, "queues": [QUEUE]}
SCRAPE = """
import http.client, ssl, sys
connection = http.client.HTTPSConnection(sys.argv[1], 8443, timeout=10, context=ssl._create_unverified_context())
token = open("/var/run/secrets/kubernetes.io/serviceaccount/token").read()
connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
print(connection.getresponse().status)
"""


class Right(NamedTuple):
    account: str
    resource: str
    """As kubectl writes it, with the group behind a dot and the subresource behind a stroke."""
    verb: str


def table() -> dict[Right, str]:
    """Every right of the table with its reason."""
    rows = [match.groups() for match in map(ROW.match, TABLE.read_text().splitlines()) if match]
    listed = [(Right(row[0], row[1], verb), row[3]) for row in rows for verb in row[2].split(", ")]
    assert len(listed) == len(dict(listed)), "no right stands there twice"
    return dict(listed)


def named(group: str, resource: str) -> str:
    plural, _, subresource = resource.partition("/")
    return plural + (f".{group}" if group else "") + (f"/{subresource}" if subresource else "")


def test_the_table_is_what_the_chart_grants(render: Callable[..., dict[tuple[str, str], Any]]) -> None:
    granted = {
        Right(name.removeprefix("cotenant-"), named(group, resource), verb)
        for (kind, name), role in render({"agent": {"dra": {"enabled": True}}}).items()
        if kind in {"Role", "ClusterRole"} and name in {"cotenant-operator", "cotenant-agent"}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert sorted(granted) == sorted(table())


@pytest.fixture(scope="module")
def cluster(local_cluster: Cluster, install: Callable[..., Any]) -> Iterator[Cluster]:
    labels = {"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM, "labels": labels}}
    with install(local_cluster, VALUES, wait=True):
        local_cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(namespace))
        yield local_cluster
        local_cluster.kubectl("delete", "namespace", TEAM)


def job(name: str, **spec: Any) -> dict[str, Any]:
    usual = {"queue": TEAM, "gpu": {"count": 1}, "resources": {"cpu": "50m", "memory": "256Mi"}}
    return {
        "apiVersion": "cotenant.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": usual | spec,
    }


def used(cluster: Cluster) -> set[Right]:
    """What the two accounts have asked for since the cluster is there, but for what Kubernetes lets everybody ask."""
    found = set()
    for line in (cluster.state.logs / "audit.log").read_text().splitlines():
        event = json.loads(line)
        account = ACCOUNTS.get(event["user"].get("username", ""))
        if account is None or "impersonatedUser" in event or "objectRef" not in event:
            continue
        asked = event["objectRef"]
        resource = asked["resource"] + (f"/{asked['subresource']}" if "subresource" in asked else "")
        found.add(Right(account, named(asked.get("apiGroup", ""), resource), event["verb"]))
    return found


def live(cluster: Cluster) -> None:
    """One job on two nodes that ends and goes, one that is suspended while it runs, and a look at all metrics."""
    two_nodes = job("ends", workers=5, ttlAfterFinished="1s", runtime={"command": ["python", "-c", "print()"]})
    suspended = job("suspended", runtime={"command": ["sleep", "3600"]})
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([two_nodes, suspended]))
    get = ("get", "trainingjobs", "-n", TEAM, "-o", "jsonpath={range .items[*]}{.metadata.name}={.status.phase} {end}")
    wait_for(lambda: cluster.kubectl(*get).split() == ["suspended=Running"], lambda: cluster.kubectl(*get))
    suspend = ("--type=merge", "-p", json.dumps({"spec": {"suspend": True}}))
    cluster.kubectl("patch", "trainingjob", "suspended", "-n", TEAM, *suspend)
    label = "app.kubernetes.io/component in (operator, agent)"
    pods = json.loads(cluster.kubectl("get", "pods", "-n", NAMESPACE, "-l", label, "-o", "json"))["items"]
    for pod in pods:
        within = ("exec", "-n", NAMESPACE, pod["metadata"]["name"], "--", "python", "-c", SCRAPE)
        assert cluster.kubectl(*within, pod["status"]["podIP"]).strip() == "403", "neither account reads metrics"
    gone = ("get", "pods", "-n", TEAM, "-o", "name")
    wait_for(lambda: cluster.kubectl(*gone) == "", lambda: cluster.kubectl(*gone))


def wait_for(true: Callable[[], bool], state: Callable[[], str], seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, state()
        time.sleep(0.5)


def test_what_is_used_is_in_the_table_and_what_is_in_the_table_is_used(cluster: Cluster) -> None:
    live(cluster)
    rights, found = table(), used(cluster)
    rare = {right for right, why in rights.items() if why.startswith("rare:")}
    assert sorted(found - rights.keys()) == [], "used, and not in the table"
    assert sorted(rights.keys() - rare - found) == [], "in the table, and not used"
