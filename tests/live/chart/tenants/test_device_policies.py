"""Slices of an agent are its own node's, claims of the operator are for pods of its jobs: on the real API server."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException

from cotenant.controller.isolation.device_claim import resource_claim
from cotenant.controller.manifests.worker_pod import pod
from cotenant.controller.settings import Settings
from cotenant_agent.dra import resource_slices
from cotenant_agent.dra.resource_slices import GpuDevice
from tests.agent.dra.gpus import A
from tests.controller.builders import attempt
from tests.controller.manifests.expected import SIMULATED
from tests.live.chart.conftest import Installed, wait_until_in_force
from tests.live.chart.policies.test_agent_policy import as_agent

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

Document = dict[str, Any]
Change = Callable[[Document], object]
OPERATOR = {"Impersonate-User": "system:serviceaccount:cotenant-system:cotenant-operator"}
TEAM = "device-team"


@pytest.fixture(scope="module")
def objects(api_server: Cluster, request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.config.getoption("--oldest"):
        pytest.skip("Kubernetes 1.32 has no resource.k8s.io/v1")
    nowhere = {"nodeSelector": {"no-node": "has-this"}}
    values = {
        "operator": {"replicas": 1} | nowhere,
        "agent": {"simulate": True, "dra": {"enabled": True}} | nowhere,
        "query": {"enabled": False},  # without an operator its API keeps namespaces from ending
    }
    with Installed(api_server, values, wait=False):
        wait_until_in_force(api_server)
        api_server.kubectl("create", "namespace", TEAM)
        # The last case turns off Kubernetes' own rule about uncounted claims, so that our policy has to refuse.
        labels = ("cotenant.dev/tenant=true", "pod-security.kubernetes.io/enforce=restricted",
                  "resource.kubernetes.io/admin-access=true")  # fmt: skip
        api_server.kubectl("label", "namespace", TEAM, *labels)
        try:
            yield kubernetes.client.CustomObjectsApi(
                kubernetes.config.new_client_from_config(str(api_server.kubeconfig))
            )
        finally:
            api_server.kubectl("delete", "namespace", TEAM)


def said(call: Callable[[], object]) -> str:
    try:
        call()
    except ApiException as error:
        return str(error.body)
    return ""


def slice_of(node: str) -> Document:
    metadata = {"name": node, "uid": "0a0a0a0a-0000-4000-8000-000000000000"}
    offered = GpuDevice(gpu=A, unhealthy="XID79: gone", drains=True, held=True)
    (found,) = resource_slices.slices({"metadata": metadata}, [offered], 1)
    return found


def of_driver(driver: str) -> Change:
    return lambda document: document["spec"].update(driver=driver)


def of_pool(pool: str) -> Change:
    return lambda document: document["spec"]["pool"].update(name=pool)


def on_all_nodes(document: Document) -> None:
    del document["spec"]["nodeName"]
    document["spec"]["allNodes"] = True


OWN = "may write the ResourceSlices of gpu.cotenant.dev on that node only"


@pytest.mark.parametrize(
    ("node", "change", "says"),
    [
        pytest.param("own", lambda _: None, "", id="its own"),
        pytest.param("other", lambda _: None, f"the agent on node other {OWN}", id="another node's"),
        pytest.param(None, lambda _: None, "the agent's token is bound to no node", id="with a token of no node"),
        pytest.param("own", of_driver("gpu.nvidia.com"), OWN, id="another driver's"),
        pytest.param("own", of_pool("other"), OWN, id="another pool's"),
        pytest.param("own", on_all_nodes, OWN, id="every node's"),
    ],
)
def test_an_agent_publishes_the_slices_of_its_node_and_driver(
    objects: Any, node: str | None, change: Change, says: str
) -> None:
    document = slice_of("own")
    change(document)
    answer = said(
        lambda: objects.create_cluster_custom_object(
            "resource.k8s.io", "v1", "resourceslices", document, dry_run="All", _headers=as_agent(node)
        )
    )
    assert (says in answer) if says else answer == ""


def test_an_agent_takes_away_no_slice_of_another_node(objects: Any) -> None:
    kind = ("resource.k8s.io", "v1", "resourceslices")
    document = slice_of("own")
    del document["metadata"]["ownerReferences"]  # there is no such Node, and it would be collected
    objects.create_cluster_custom_object(*kind, document)
    name = document["metadata"]["name"]
    delete = objects.delete_cluster_custom_object
    try:
        assert OWN in said(lambda: delete(*kind, name, dry_run="All", _headers=as_agent("other")))
        assert said(lambda: delete(*kind, name, dry_run="All", _headers=as_agent("own"))) == ""
    finally:
        said(lambda: delete(*kind, name))


def own_claim() -> Document:
    made = attempt()
    metadata = pod(made, 0, Settings(), SIMULATED).pod["metadata"]
    return resource_claim(made.placement.nodes[0], metadata | {"namespace": TEAM})


def every_request(change: Change) -> Change:
    return lambda claim: [change(one["exactly"]) for one in claim["spec"]["devices"]["requests"]]


CLAIM = "asks for GPUs that the agents offer, for one pod of a TrainingJob"
OPAQUE = {"opaque": {"driver": "gpu.nvidia.com", "parameters": {}}}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(lambda _: None, "", id="as the operator writes it"),
        pytest.param(every_request(lambda one: one.update(deviceClassName="gpu.nvidia.com")), CLAIM, id="a class"),
        pytest.param(every_request(lambda one: one.update(adminAccess=True)), CLAIM, id="access without counting"),
        pytest.param(lambda claim: claim["metadata"].update(name="anything"), CLAIM, id="another name"),
        pytest.param(lambda claim: claim["metadata"].update(finalizers=["a.dev/stay"]), CLAIM, id="a finalizer"),
        pytest.param(lambda claim: claim["spec"]["devices"].update(config=[OPAQUE]), CLAIM, id="settings of a driver"),
        pytest.param(lambda claim: claim["metadata"].pop("ownerReferences"), "TrainingJob", id="no owner"),
    ],
)
def test_the_operator_makes_claims_for_pods_of_jobs(objects: Any, change: Change, says: str) -> None:
    claim = copy.deepcopy(own_claim())
    change(claim)
    answer = said(
        lambda: objects.create_namespaced_custom_object(
            "resource.k8s.io", "v1", TEAM, "resourceclaims", claim, dry_run="All", _headers=OPERATOR
        )
    )
    assert (says in answer) if says else answer == ""
