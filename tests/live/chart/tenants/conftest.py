"""A job as the operator makes it, on the real API server with the chart's policies, and people who meet it.

`mallory` has the ordinary ClusterRole "edit" in the job's namespace and in one without the tenant label. The operator
does not run; its objects are made by an account that `admission.exemptUsers` names.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest

from cotenant import names
from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.isolation.node_isolation import NodeIsolation
from cotenant.controller.manifests import worker_pod
from cotenant.controller.manifests.side_objects import side_objects
from cotenant.controller.settings import Settings
from tests.controller import builders
from tests.live.chart.conftest import EXEMPT_USER
from tests.live.chart.tenants.account import Account, Document
from tests.live.waiting import wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

TEAM, ELSEWHERE, NODE = "managed-team", "managed-elsewhere", "played"
SIMULATED = NodeIsolation(simulated=True, best=Isolation.NONE)
EDIT = """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: edit, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}}
subjects: [{{kind: User, name: mallory}}]
"""


def training_job(name: str = "train", **metadata: Any) -> Document:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": name, "annotations": {names.ANNOTATION_USER: "mallory"}, **metadata},
        "spec": {"queue": "nobodys", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}},
    }


def made_by_the_operator(job: str, uid: str) -> Iterator[tuple[str, Document]]:
    """(resource, document) of all that an attempt of three nodes needs; the pods `-0` and `-2` are on a node."""
    nodes = (NODE, 1), ("second", 1), ("third", 1)
    attempt = builders.attempt(*nodes, namespace=TEAM, job=job, uid=uid, number=1)
    for resource, document in side_objects(attempt, "token", Settings()):
        yield resource.plural, document
    for rank in range(len(nodes)):
        pod = worker_pod.pod(attempt, rank, Settings(), SIMULATED).pod
        if rank != 1:
            pod["spec"]["nodeName"] = NODE
            del pod["spec"]["affinity"]
        yield "pods", pod


def grant(cluster: Cluster, user: str, verb: str, *resources: str, group: str = "") -> None:
    """Give somebody one more right in the namespace of the job. It ends with the namespace."""
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": [verb]}
    binding = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"kind": "User", "name": user}],
    }
    for kind, fields in (("Role", {"rules": [rule]}), ("RoleBinding", binding)):
        document = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": user}} | fields
        cluster.kubectl("apply", "-n", TEAM, "-f", "-", stdin=json.dumps(document))
    what, _, subresource = resources[-1].partition("/")
    wait_for_right(cluster, user, verb, f"{what}.{group}" if group else what, f"--subresource={subresource}")


def wait_for_right(cluster: Cluster, user: str, *right: str) -> None:
    """Wait until the authorizer knows a new binding, which it learns by a watch."""
    asked = cluster.command("kubectl", "auth", "can-i", *right, "-n", TEAM, "--as", user)
    wait_until(lambda: not subprocess.run(asked, capture_output=True, check=False).returncode, str(asked), seconds=30)


@pytest.fixture(scope="module")
def account(policies: Cluster) -> Callable[..., Account]:
    """`account("mallory")`, `account("root", "system:masters")`: requests in the job's namespace as that user."""
    client = kubernetes.config.new_client_from_config(str(policies.kubeconfig))

    def of(user: str, group: str = "") -> Account:
        return Account(client, user, group, TEAM)

    return of


@pytest.fixture(scope="module")
def tenant(stage: Cluster, account: Callable[..., Account]) -> Account:
    """An account that may edit the namespace of the job."""
    return account("mallory")


@pytest.fixture(scope="module")
def colleague(tenant: Account) -> Account:
    """The same rights in a namespace that is no tenant's."""
    return replace(tenant, namespace=ELSEWHERE)


@pytest.fixture(scope="module")
def administrator(account: Callable[..., Account]) -> Account:
    return account("root", "system:masters")


@pytest.fixture(scope="module")
def restorer(account: Callable[..., Account]) -> Account:
    return account(EXEMPT_USER, "system:masters")


@pytest.fixture(scope="module")
def stage(policies: Cluster, restorer: Account) -> Iterator[Cluster]:
    """The namespaces, a node that is only an object, and the job `train` with all that belongs to it."""
    labels = '{cotenant.dev/tenant: "true", pod-security.kubernetes.io/enforce: restricted}'
    policies.kubectl("apply", "-f", "-", stdin=f"{{apiVersion: v1, kind: Node, metadata: {{name: {NODE}}}}}")
    for namespace, carries in ((TEAM, labels), (ELSEWHERE, "{}")):
        metadata = f"{{name: {namespace}, labels: {carries}}}"
        policies.kubectl("apply", "-f", "-", stdin=f"{{apiVersion: v1, kind: Namespace, metadata: {metadata}}}")
        policies.kubectl("apply", "-f", "-", stdin=EDIT.format(namespace=namespace))
    wait_for_right(policies, "mallory", "delete", "trainingjobs.cotenant.dev")
    room = '{"status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "100"}}}'
    policies.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", room)
    place(restorer, "train")
    restorer.merge("pods/train-1-2/status", {"status": {"phase": "Failed"}}, dry=False)
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "main", "image": "tools"}]}}
    assert replace(restorer, namespace=ELSEWHERE).create("pods", plain, dry=False) == ""
    yield policies
    for namespace in (TEAM, ELSEWHERE):
        policies.kubectl("delete", "pods", "--all", "--force", "-n", namespace)
        policies.kubectl("delete", "namespace", namespace)
    policies.kubectl("delete", "node", NODE)


def place(restorer: Account, job: str) -> str:
    """Make a TrainingJob and what the operator makes for it. Returns its uid."""
    assert restorer.create("trainingjobs", training_job(job), dry=False) == ""
    uid: str = restorer.read(f"trainingjobs/{job}")["metadata"]["uid"]
    for resource, document in made_by_the_operator(job, uid):
        assert restorer.create(resource, document, dry=False) == ""
    return uid
