"""An agent writes its own node's GPUNode and no other, with the chart's RBAC and policy on the real API server."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

AGENT = "system:serviceaccount:cotenant-system:cotenant-agent"
KIND = ("cotenant.dev", "v1beta1", "gpunodes")
MERGE = "application/merge-patch+json"


def as_agent(node: str | None) -> dict[str, str]:
    """Headers of an agent whose token is bound to a pod on this node."""
    extra = {} if node is None else {"Impersonate-Extra-authentication.kubernetes.io%2fnode-name": node}
    return {"Impersonate-User": AGENT} | extra


@pytest.fixture(scope="module")
def objects(policies: "Cluster") -> Iterator[Any]:
    client = kubernetes.config.new_client_from_config(str(policies.kubeconfig))
    custom = kubernetes.client.CustomObjectsApi(client)
    for name in ("own", "other"):
        body = {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "metadata": {"name": name}}
        custom.create_cluster_custom_object(*KIND, body)
    yield custom
    for name in ("own", "other"):
        custom.delete_cluster_custom_object(*KIND, name)


def said(call: Callable[[], object]) -> str:
    try:
        call()
    except ApiException as error:
        return str(error.body)
    return ""


def create(objects: Any, name: str, node: str | None) -> str:
    body = {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "metadata": {"name": name}}
    return said(lambda: objects.create_cluster_custom_object(*KIND, body, dry_run="All", _headers=as_agent(node)))


def patch(objects: Any, name: str, node: str | None, *, status: bool) -> str:
    verb = objects.patch_cluster_custom_object_status if status else objects.patch_cluster_custom_object
    body = {"status": {"simulated": True}} if status else {"metadata": {"annotations": {"a": "b"}}}
    return said(lambda: verb(*KIND, name, body, dry_run="All", _headers=as_agent(node), _content_type=MERGE))


@pytest.mark.parametrize(
    ("node", "says"),
    [
        pytest.param("new", "", id="on that node"),
        pytest.param("other", "the agent on node other may write the GPUNode other only, not new", id="on another"),
        pytest.param(None, "the agent's token is bound to no node", id="with a token of no node"),
    ],
)
def test_an_agent_creates_the_gpunode_of_its_node(objects: Any, node: str | None, says: str) -> None:
    answer = create(objects, "new", node)
    assert (says in answer) if says else answer == ""


@pytest.mark.parametrize("status", [True, False], ids=["status", "metadata"])
@pytest.mark.parametrize(("name", "allowed"), [("own", True), ("other", False)])
def test_an_agent_patches_the_gpunode_of_its_node(objects: Any, name: str, allowed: bool, status: bool) -> None:
    answer = patch(objects, name, "own", status=status)
    assert answer == "" if allowed else "may write the GPUNode own only, not other" in answer


def test_an_agent_cannot_delete_even_its_own(objects: Any) -> None:
    delete = objects.delete_cluster_custom_object
    assert "forbidden" in said(lambda: delete(*KIND, "own", dry_run="All", _headers=as_agent("own")))


def test_the_administrator_is_not_judged(objects: Any) -> None:
    objects.patch_cluster_custom_object(*KIND, "own", {"metadata": {"annotations": {"a": "b"}}}, _content_type=MERGE)


@pytest.mark.parametrize(
    ("role", "verb", "resource", "allowed"),
    [
        ("view", "get", "trainingjobs", True),
        ("view", "list", "trainingjobs", True),
        ("view", "create", "trainingjobs", False),
        ("edit", "create", "trainingjobs", True),
        ("edit", "delete", "trainingjobs", True),
        ("edit", "patch", "trainingjobs/status", False),
        ("edit", "update", "trainingjobs/status", False),
        ("admin", "patch", "trainingjobs", True),
        ("admin", "patch", "trainingjobs/status", False),
        ("view", "list", "localqueues", True),
        ("admin", "create", "localqueues", False),
        ("admin", "patch", "localqueues/status", False),
        ("admin", "create", "queues", False),
        ("admin", "patch", "gpunodes", False),
    ],
)
def test_the_usual_roles_submit_jobs_and_grant_nothing(
    policies: "Cluster", role: str, verb: str, resource: str, allowed: bool
) -> None:
    user = f"{role}-user"
    binding = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: policy-{role}, namespace: default}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}
subjects: [{{kind: User, name: {user}}}]
"""
    policies.kubectl("apply", "-f", "-", stdin=binding)
    what, _, subresource = resource.partition("/")
    arguments = ["auth", "can-i", verb, f"{what}.cotenant.dev", "-n", "default", "--as", user]
    arguments += [f"--subresource={subresource}"] if subresource else []
    answer = policies.kubectl(*arguments, expect=0 if allowed else 1)
    assert answer.split()[0] == ("yes" if allowed else "no")
