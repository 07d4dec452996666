"""The table of rights in docs/privileges.md is what the chart grants, and what the accounts really use, on their own.

What they use, and on which objects, is in the API server's audit log: of this test's jobs, and of all that ran on the
cluster before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from cotenant_local.host.errors import LocalError
from tests.live.waiting import wait_until
from tests.support.pod_sandbox import until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

TABLE = Path(__file__).parents[3] / "docs" / "privileges.md"
ROW = re.compile(r"\| (operator|agent) \| `([^`]+)` \| ([a-z, ]+) \| (.+?) \| (.*)\|")
NAMESPACE, TEAM, ELSEWHERE = "cotenant-system", "audited", "audited-elsewhere"
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


WRITES = {"create", "update", "patch", "delete", "deletecollection"}
OWN_KINDS = {
    Right("operator", "trainingjobs.cotenant.dev/status", "patch"),
    Right("operator", "trainingjobs.cotenant.dev", "delete"),
    Right("operator", "queues.cotenant.dev/status", "patch"),
    Right("operator", "sweeps.cotenant.dev/status", "patch"),
    Right("operator", "sweeps.cotenant.dev", "delete"),
    Right("operator", "quotarequests.cotenant.dev/status", "patch"),
    Right("operator", "bookings.cotenant.dev/status", "patch"),
    Right("operator", "remoteclusters.cotenant.dev/status", "patch"),
    Right("operator", "sessions.cotenant.dev/status", "patch"),
    Right("operator", "sessions.cotenant.dev", "patch"),
    Right("operator", "secrets", "patch"),
    Right("operator", "apiservices.apiregistration.k8s.io", "patch"),
}
"""Writes on what others make, by those rights of the table alone: of our own kinds, and certificates into objects of
the release.
"""
ACCOUNT_OF_ROLE = {"cotenant-operator": "operator", "cotenant-agent": "agent", "cotenant-metrics-serving": "operator"}

OF_KUBERNETES = Right("operator", "configmaps", "get")
"""By Kubernetes' own Role `extension-apiserver-authentication-reader`, to which the chart binds the account."""


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
        Right(ACCOUNT_OF_ROLE[name], named(group, resource), verb)
        for (kind, name), role in render({"agent": {"dra": {"enabled": True}}}).items()
        if kind in {"Role", "ClusterRole"} and name in ACCOUNT_OF_ROLE
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert sorted([*granted, OF_KUBERNETES]) == sorted(table())


@pytest.fixture(scope="module")
def before(local_cluster: Cluster) -> int:
    """Requests that are of other tests on the same cluster."""
    return len(list(requests(local_cluster)))


@pytest.fixture(scope="module")
def cluster(local_cluster: Cluster, before: int, install: Callable[..., Any]) -> Iterator[Cluster]:
    labels = {"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM, "labels": labels}}
    # Helm leaves the Lease of another test's release, and then nobody would create one.
    local_cluster.kubectl("delete", "leases", "--all", "-n", NAMESPACE, "--ignore-not-found")
    with install(local_cluster, VALUES, wait=True):
        local_cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(namespace))
        local_cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(foreign_objects()))
        live(local_cluster)
        yield local_cluster
        local_cluster.kubectl("delete", "namespace", TEAM, ELSEWHERE)


def scraped(cluster: Cluster, pod: dict[str, Any]) -> str:
    """Status of /metrics, asked by the pod's own account; empty while the pod has no certificate yet."""
    within = ("exec", "-n", NAMESPACE, pod["metadata"]["name"], "--", "python", "-c", SCRAPE)
    try:
        return cluster.kubectl(*within, pod["status"]["podIP"]).strip()
    except LocalError:
        return ""


def job(name: str, **spec: Any) -> dict[str, Any]:
    usual = {"queue": TEAM, "gpu": {"count": 1}, "resources": {"cpu": "50m", "memory": "256Mi"}}
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": usual | spec,
    }


def quota_request() -> dict[str, Any]:
    spec = {"quotas": [{"gpus": 1}], "until": "2099-01-31T18:00:00Z", "reason": "a paper"}
    metadata = {"name": "more", "namespace": TEAM}
    return {"apiVersion": "cotenant.dev/v1beta1", "kind": "QuotaRequest", "metadata": metadata, "spec": spec}


def booking() -> dict[str, Any]:
    spec = {
        "queue": TEAM, "gpuClass": "none", "gpus": 1, "start": "2099-01-01T00:00:00Z", "end": "2099-01-31T18:00:00Z",
    }  # fmt: skip
    return {"apiVersion": "cotenant.dev/v1beta1", "kind": "Booking", "metadata": {"name": "demo"}, "spec": spec}


class Request(NamedTuple):
    right: Right
    """Of nobody (`account` is empty) where neither of the two accounts asked."""
    namespace: str
    name: str
    done: bool

    @property
    def target(self) -> tuple[str, str, str]:
        """(resource, namespace, name), whichever subresource was asked for."""
        return self.right.resource.partition("/")[0], self.namespace, self.name


def requests(cluster: Cluster) -> Iterator[Request]:
    """All requests since the cluster started, without those that Kubernetes allows to everybody."""
    for line in (cluster.state.logs / "audit.log").read_text().splitlines():
        event = json.loads(line)
        if "objectRef" not in event:
            continue
        asked = event["objectRef"]
        account = "" if "impersonatedUser" in event else ACCOUNTS.get(event["user"].get("username", ""), "")
        resource = asked["resource"] + (f"/{asked['subresource']}" if "subresource" in asked else "")
        right = Right(account, named(asked.get("apiGroup", ""), resource), event["verb"])
        done = event.get("responseStatus", {}).get("code", 0) < 300
        yield Request(right, asked.get("namespace", ""), asked.get("name", ""), done)


def foreign_writes(seen: list[Request]) -> list[Request]:
    """Writes of the two accounts, also refused, to objects that others made. A name belongs to its last creator."""
    made_by: dict[tuple[str, str, str], str] = {}
    found = []
    for one in seen:
        account, _, verb = one.right
        if verb == "create" and one.done and "/" not in one.right.resource:
            made_by[one.target] = account
        elif account and verb in WRITES and made_by.get(one.target, account) != account and one.right not in OWN_KINDS:
            found.append(one)
    return found


def foreign_objects() -> list[dict[str, Any]]:
    """What others run beside jobs, in a tenant's namespace and in one that is nobody's, close to names of ours.

    A Job and a ReplicaSet of others, whose controllers make pods; pods, a Service, a NetworkPolicy, a Secret; a
    TrainingJob that no queue serves.
    """
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": "worker",
        "image": "ghcr.io/cotenant/tools",
        "command": ["sleep", "3600"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {"restartPolicy": "Never", "securityContext": security, "containers": [container]}
    template = {"metadata": {"labels": {"app": "ends"}}, "spec": pod}
    replicas = {"selector": {"matchLabels": {"app": "ends"}}, "replicas": 1}
    objects: list[tuple[str, str, dict[str, Any]]] = [
        ("v1", "Pod", {"metadata": {"name": "ends-9-0"}, "spec": pod}),
        ("batch/v1", "Job", {"metadata": {"name": "ends"}, "spec": {"template": template}}),
        (
            "apps/v1",
            "ReplicaSet",
            {
                "metadata": {"name": "ends"},
                "spec": replicas | {"template": {**template, "spec": pod | {"restartPolicy": "Always"}}},
            },
        ),
        (
            "v1",
            "Service",
            {"metadata": {"name": "ends-web"}, "spec": {"clusterIP": "None", "selector": {"app": "ends"}}},
        ),
        ("networking.k8s.io/v1", "NetworkPolicy", {"metadata": {"name": "ends-web"}, "spec": {"podSelector": {}}}),
        ("v1", "Secret", {"metadata": {"name": "cotenant-tokens"}}),
    ]
    made = [
        {"apiVersion": api, "kind": kind, **rest, "metadata": {**rest["metadata"], "namespace": namespace}}
        for namespace in (TEAM, ELSEWHERE)
        for api, kind, rest in objects
    ]
    unserved = job("unserved", runtime={"command": ["sleep", "3600"]})
    unserved["metadata"]["namespace"] = ELSEWHERE
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ELSEWHERE}}, *made, unserved]


def live(cluster: Cluster) -> None:
    """One job on two nodes that ends and goes, one that is suspended while it runs, and a look at all metrics."""
    two_nodes = job("ends", workers=5, ttlAfterFinished="1s", runtime={"command": ["python", "-c", "print()"]})
    suspended = job("suspended", runtime={"command": ["sleep", "3600"]})
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([two_nodes, suspended, quota_request(), booking()]))
    get = ("get", "trainingjobs", "-n", TEAM, "-o", "jsonpath={range .items[*]}{.metadata.name}={.status.phase} {end}")
    wait_for(lambda: cluster.kubectl(*get).split() == ["suspended=Running"], lambda: cluster.kubectl(*get))
    suspend = ("--type=merge", "-p", json.dumps({"spec": {"suspend": True}}))
    cluster.kubectl("patch", "trainingjob", "suspended", "-n", TEAM, *suspend)
    label = "app.kubernetes.io/component in (operator, agent)"
    pods = json.loads(cluster.kubectl("get", "pods", "-n", NAMESPACE, "-l", label, "-o", "json"))["items"]
    for pod in pods:
        answer = until(partial(scraped, cluster, pod), 180, "the certificate of /metrics in this pod")
        assert answer == "403", "neither account reads metrics"
    here = ("endpointslice", "cotenant-query-ipv4", "-n", NAMESPACE)
    cluster.kubectl("patch", *here, "--type=merge", "-p", json.dumps({"endpoints": []}))
    leads = ("get", *here, "-o", "jsonpath={.endpoints[*].addresses}")
    wait_for(lambda: cluster.kubectl(*leads) != "", lambda: cluster.kubectl(*leads))
    answered = ("get", "quotarequest", "more", "-n", TEAM, "-o", "jsonpath={.status.phase}")
    wait_for(lambda: cluster.kubectl(*answered) == "Pending", lambda: cluster.kubectl(*answered))
    told = ("get", "booking", "demo", "-o", "jsonpath={.status.phase}")
    wait_for(lambda: cluster.kubectl(*told) == "Overbooked", lambda: cluster.kubectl(*told))
    gone = ("get", "pods", "-n", TEAM, "-l", "cotenant.dev/job", "-o", "name")
    wait_for(lambda: cluster.kubectl(*gone) == "", lambda: cluster.kubectl(*gone))


def wait_for(true: Callable[[], bool], state: Callable[[], str], seconds: float = 180.0) -> None:
    wait_until(true, state, seconds=seconds)


def test_what_is_used_is_in_the_table_and_what_is_in_the_table_is_used(cluster: Cluster, before: int) -> None:
    rights, found = table(), {one.right for one in list(requests(cluster))[before:] if one.right.account}
    rare = {right for right, why in rights.items() if why.startswith("rare:")}
    assert sorted(found - rights.keys()) == [], "used, and not in the table"
    assert sorted(rights.keys() - rare - found) == [], "in the table, and not used"


def test_no_write_touches_what_others_made(cluster: Cluster, before: int) -> None:
    """This holds in a tenant's namespace and elsewhere, however close the name is. Elsewhere nothing is made."""
    seen = list(requests(cluster))[before:]
    theirs = {
        (one.namespace, one.right.resource) for one in seen if not one.right.account and one.right.verb == "create"
    }
    assert {(space, kind) for space in (TEAM, ELSEWHERE) for kind in ("pods", "services", "secrets")} <= theirs
    assert foreign_writes(seen) == []
    elsewhere = {one.right for one in seen if one.right.account and one.namespace == ELSEWHERE}
    assert {right for right in elsewhere if right.verb in WRITES} - OWN_KINDS <= {Right("operator", "events", "create")}


def test_a_write_on_what_others_made_would_be_seen() -> None:
    pods = [Right(account, "pods", verb) for account, verb in (("", "create"), ("operator", "delete"))]
    theirs, ended = (Request(right, TEAM, "ends-9-0", done=True) for right in pods)
    ours = Request(Right("operator", "pods", "create"), TEAM, "ends-1-0", done=True)
    refused = Request(Right("operator", "pods", "delete"), TEAM, "ends-9-0", done=False)
    status = Request(Right("operator", "trainingjobs.cotenant.dev/status", "patch"), TEAM, "ends", done=True)
    job_made = Request(Right("", "trainingjobs.cotenant.dev", "create"), TEAM, "ends", done=True)
    assert foreign_writes([theirs, ended, ours, ours._replace(right=ended.right)]) == [ended]
    assert foreign_writes([theirs, refused]) == [refused]
    assert foreign_writes([job_made, status]) == []
