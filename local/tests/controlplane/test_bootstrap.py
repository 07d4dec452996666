"""The objects that a cluster starts with, as they are applied; and what is asked of a node."""

import base64
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.controlplane import bootstrap
from cotenant_local.host.addresses import FAMILIES
from cotenant_local.host.api_client import MERGE
from local.tests.plans import node_plan

SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"


class WrittenDown:
    """An API server that takes everything, and answers what it is given."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.applied: dict[tuple[str, str], dict[str, Any]] = {}
        self.calls: list[tuple[Any, ...]] = []

    def apply(self, path: str, body: dict[str, Any]) -> None:
        self.applied[path, body["metadata"]["name"]] = body

    def call(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Any:
        self.calls.append((method, path, body, kind))
        return self.answers


def created(tmp_path: Path, *, with_metrics: bool) -> dict[tuple[str, str], dict[str, Any]]:
    (tmp_path / "ca.crt").write_bytes(b"authority")
    api: Any = WrittenDown()
    bootstrap.create_system_objects(api, tmp_path, FAMILIES["IPv4"], with_metrics=with_metrics)
    applied: dict[tuple[str, str], dict[str, Any]] = api.applied
    return applied


def test_the_metrics_api_comes_with_a_node_only(tmp_path: Path) -> None:
    without, whole = created(tmp_path, with_metrics=False), created(tmp_path, with_metrics=True)
    assert sorted(name for _, name in without) == [
        "kube-dns",
        "kube-dns-control-plane",
        "standard",
        *2 * ["system:coredns"],
        *2 * ["system:network-policies"],
        *2 * ["system:volumes"],
    ]
    assert sorted({name for _, name in whole} - {name for _, name in without}) == [
        "metrics-server",
        "metrics-server-control-plane",
        "system:aggregated-metrics-reader",
        "system:metrics",
        "v1beta1.metrics.k8s.io",
    ]


def test_every_right_is_bound_to_the_user_of_its_name(tmp_path: Path) -> None:
    applied = created(tmp_path, with_metrics=True)
    bindings = {name: body for (path, name), body in applied.items() if path.endswith("/clusterrolebindings")}
    group = "rbac.authorization.k8s.io"
    assert {name: (body["roleRef"], body["subjects"]) for name, body in bindings.items()} == {
        name: (
            {"apiGroup": group, "kind": "ClusterRole", "name": name},
            [{"apiGroup": group, "kind": "User", "name": name}],
        )
        for name in ("system:coredns", "system:network-policies", "system:volumes", "system:metrics")
    }


def test_dns_is_a_service_whose_one_endpoint_is_the_control_plane(tmp_path: Path) -> None:
    applied = created(tmp_path, with_metrics=False)
    service = applied["/api/v1/namespaces/kube-system/services", "kube-dns"]
    assert service["spec"] == {"clusterIP": "10.96.0.10", "ports": bootstrap.DNS_PORTS}
    endpoint = applied[SLICES, "kube-dns-control-plane"]
    assert endpoint["endpoints"] == [{"addresses": ["10.89.0.1"], "conditions": {"ready": True}}]
    assert endpoint["metadata"]["labels"]["kubernetes.io/service-name"] == "kube-dns"


def test_only_the_volumes_user_writes_and_only_what_volumes_need(tmp_path: Path) -> None:
    applied = created(tmp_path, with_metrics=True)
    writes = {
        (name, *rule["resources"], *sorted(set(rule["verbs"]) - {"get", "list", "watch"}))
        for (_, name), body in applied.items()
        for rule in body.get("rules", ())
        if set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert writes == {
        ("system:volumes", "persistentvolumes", "create", "delete"),
        ("system:volumes", "events", "create"),
    }


def test_the_metrics_api_is_registered_with_the_clusters_authority(tmp_path: Path) -> None:
    applied = created(tmp_path, with_metrics=True)
    spec = applied["/apis/apiregistration.k8s.io/v1/apiservices", "v1beta1.metrics.k8s.io"]["spec"]
    assert base64.b64decode(spec["caBundle"]) == b"authority"
    assert (spec["group"], spec["version"], spec["service"]["name"]) == ("metrics.k8s.io", "v1beta1", "metrics-server")


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([], False),
    ],
)
def test_a_node_is_ready_by_its_condition(conditions: list[dict[str, str]], ready: bool) -> None:
    api: Any = WrittenDown(status={"conditions": conditions})
    assert bootstrap.node_ready(api, "node-1") is ready
    assert api.calls == [("GET", "/api/v1/nodes/node-1", None, "application/json")]


def test_extended_resources_are_written_into_the_status_where_there_are_any() -> None:
    api: Any = WrittenDown()
    bootstrap.set_extended_resources(api, node_plan())
    assert api.calls == []
    bootstrap.set_extended_resources(api, node_plan(resources={"example.com/gadget": 2}))
    amounts = {"example.com/gadget": "2"}
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    assert api.calls == [("PATCH", "/api/v1/nodes/node-1/status", status, MERGE)]
