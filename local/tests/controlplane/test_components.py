"""Command lines of the control plane: their files are there, their rights are few, and versions are told apart."""

import json
from pathlib import Path

import pytest

from cotenant_local.cluster import identities
from cotenant_local.controlplane import components
from cotenant_local.host.cluster_folder import ClusterFolder
from local.tests.plans import cluster_plan

PLAN = cluster_plan()


def test_every_file_of_a_command_line_is_there_before_it_runs(tmp_path: Path) -> None:
    state = ClusterFolder(tmp_path)
    state.prepare()
    identities.create(state, PLAN)
    components.write_configuration(PLAN, state)
    makers = (components.etcd, components.apiserver, components.controller_manager, components.scheduler)
    words = [word for make in (*makers, components.dns) for word in make(PLAN, state)]
    named = [Path(word.rpartition("=")[2]) for word in words if str(tmp_path) in word]
    assert [file for file in named if not file.exists()] == [state.logs / "audit.log"]
    assert len(named) > 20


def test_rights_and_addresses_of_the_api_server_are_the_clusters(tmp_path: Path) -> None:
    line = components.apiserver(PLAN, ClusterFolder(tmp_path))
    assert line[:2] == ["/programs/controlplane", "kube-apiserver"]
    assert {
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--advertise-address=10.89.0.1",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    } <= set(line)


def test_an_api_server_without_ipv4_listens_on_ipv6(tmp_path: Path) -> None:
    line = components.apiserver(cluster_plan(ip_family="IPv6"), ClusterFolder(tmp_path))
    assert {"--bind-address=::", "--advertise-address=fd00:10:89::1"} <= set(line)
    assert "--bind-address=::" not in components.apiserver(PLAN, ClusterFolder(tmp_path))


def test_the_audit_log_keeps_no_body_and_leaves_out_what_would_drown_it(tmp_path: Path) -> None:
    state = ClusterFolder(tmp_path)
    state.prepare()
    components.write_configuration(PLAN, state)
    rules = json.loads((state.config / "audit-policy.json").read_text())["rules"]
    assert {rule["level"] for rule in rules} == {"None", "Metadata"}
    assert rules[-1] == {"level": "Metadata"}
    assert (state.config / "Corefile").read_text() == (
        ".:53 {\n    bind 10.89.0.1\n    errors\n    health 10.89.0.1:8080\n    ready 10.89.0.1:8181\n"
        "    kubernetes cluster.local in-addr.arpa ip6.arpa {\n"
        f"        kubeconfig {tmp_path}/config/coredns.kubeconfig\n        pods insecure\n        ttl 1\n    }}\n}}\n"
    )


@pytest.mark.parametrize(
    ("component", "command"),
    [
        ("kube-apiserver", ["/old/oldest", "kube-apiserver"]),
        ("kube-scheduler", ["/old/oldest", "kube-scheduler"]),
        ("etcd", ["/programs/controlplane", "etcd"]),
        ("coredns", ["/programs/controlplane", "coredns"]),
        ("kubelet", ["/programs/controlplane", "kubelet"]),
    ],
)
def test_an_old_control_plane_is_old_in_what_has_a_version_of_kubernetes(component: str, command: list[str]) -> None:
    assert components.program(cluster_plan(oldest=Path("/old")), component) == command
    assert components.program(PLAN, component) == ["/programs/controlplane", component]


def test_services_are_forwarded_by_their_names_from_a_nodes_network() -> None:
    plan = cluster_plan(forwards=(("default/web:80", 40001), ("b/db:5432", 40002)))
    assert components.service_forwards(plan, [7, 8], 99) == [
        "nsenter",
        "--net=/proc/99/ns/net",
        "/programs/forward",
        "-resolver=10.89.0.1:53",
        "7=web.default.svc.cluster.local:80",
        "8=db.b.svc.cluster.local:5432",
    ]


def test_programs_that_are_not_kubernetes_get_the_folder_of_the_cluster() -> None:
    state = ClusterFolder(Path("/state"))
    assert components.api_forward(PLAN, 5, 6443) == ["/programs/forward", "5=10.89.0.1:6443"]
    assert components.api_faults(PLAN, state) == [
        "/programs/apifaults",
        "-pki=/state/pki",
        "-listen=:6444",
        "-target=10.89.0.1:6443",
        "-faults=/state/api-faults.json",
    ]
    assert [components.volumes(PLAN, state)[2:], components.metrics(PLAN, state)[2:]] == [
        ["cotenant_local.controlplane.volume_provisioner", "/state"],
        ["cotenant_local.metrics.metrics_api", "/state"],
    ]
