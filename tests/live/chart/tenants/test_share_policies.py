"""Shares that kubelets count are requested by the operator's pods alone: on the real API server."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException

from cotenant.controller.manifests.worker_pod import pod
from cotenant.controller.settings import Settings
from tests.controller.builders import attempt
from tests.controller.manifests.expected import SIMULATED
from tests.live.chart.conftest import Installed, wait_until_in_force

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

Document = dict[str, Any]
OPERATOR = {"Impersonate-User": "system:serviceaccount:cotenant-system:cotenant-operator"}
ANNE = {"Impersonate-User": "anne"}
TEAM, ORDINARY = "share-team", "share-guests"
SHARE = {"gpu.cotenant.dev/memory.gpu-a": "1"}
OURS = "shares of gpu.cotenant.dev are what TrainingJobs hold of a GPU"


@pytest.fixture(scope="module")
def core(api_server: Cluster) -> Iterator[Any]:
    nowhere = {"nodeSelector": {"no-node": "has-this"}}
    values = {
        "operator": {"replicas": 1} | nowhere,
        "agent": {"simulate": True, "devicePlugin": {"enabled": True}} | nowhere,
        "query": {"enabled": False},  # without an operator its API keeps namespaces from ending
        "admission": {"requireRestricted": False},
    }
    with Installed(api_server, values, wait=False):
        wait_until_in_force(api_server)
        for namespace in (TEAM, ORDINARY):
            api_server.kubectl("create", "namespace", namespace)
            api_server.kubectl("create", "rolebinding", "editor", "-n", namespace, "--clusterrole=edit", "--user=anne")
        api_server.kubectl("label", "namespace", TEAM, "cotenant.dev/tenant=true")
        try:
            yield kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(api_server.kubeconfig)))
        finally:
            api_server.kubectl("delete", "namespace", TEAM, ORDINARY)


def said(core: Any, namespace: str, document: Document, headers: Document) -> str:
    try:
        core.create_namespaced_pod(namespace, document, dry_run="All", _headers=headers)
    except ApiException as error:
        return str(error.body)
    return ""


def requesting(amounts: Document, part: str = "containers") -> Document:
    """A pod of somebody's own, whose container or init container asks for these amounts."""
    plain = {"name": "main", "image": "ghcr.io/cotenant/tools"}
    asking = plain | {"name": "asks", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"containers": [plain]} | {part: [asking]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine"}, "spec": spec}


@pytest.mark.parametrize(("namespace", "says"), [(TEAM, "ask for GPUs with a TrainingJob"), (ORDINARY, OURS)])
@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_nobody_with_edit_requests_a_share(core: Any, namespace: str, says: str, part: str) -> None:
    assert says in said(core, namespace, requesting(SHARE, part), ANNE)


def test_nor_does_an_administrator_of_whose_pod_the_ledger_would_not_know(core: Any) -> None:
    assert OURS in said(core, ORDINARY, requesting(SHARE), {})


def test_pods_that_ask_for_other_things_are_not_judged(core: Any) -> None:
    assert said(core, ORDINARY, requesting({"cpu": "1", "nvidia.com/gpu": "1"}), ANNE) == ""


def worker(amounts: Document) -> Document:
    made = copy.deepcopy(pod(attempt(), 0, Settings(), SIMULATED).pod)
    made["metadata"]["namespace"] = TEAM
    container = made["spec"]["containers"][0]
    for kind in ("requests", "limits"):
        container["resources"][kind] = container["resources"].get(kind, {}) | amounts
    return made


@pytest.mark.parametrize(
    ("amounts", "says"),
    [
        (SHARE, ""),
        ({"nvidia.com/gpu": "1"}, "but for shares of gpu.cotenant.dev"),
        ({"example.com/gpu.cotenant.dev": "1"}, "but for shares of gpu.cotenant.dev"),
    ],
    ids=["a share", "a GPU of NVIDIA's plugin", "a resource of a similar name"],
)
def test_the_operators_pods_request_shares_and_no_other_devices(core: Any, amounts: Document, says: str) -> None:
    answer = said(core, TEAM, worker(amounts), OPERATOR)
    assert (says in answer) if says else answer == ""
