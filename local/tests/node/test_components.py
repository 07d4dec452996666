"""Command lines and configuration of what runs on a node."""

from pathlib import Path

from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.node import components
from local.tests.plans import cluster_plan, node_plan

STATE = ClusterFolder(Path("/state"))


def test_a_kubelet_is_the_node_that_its_plan_names() -> None:
    assert components.kubelet(cluster_plan(), node_plan(1)) == [
        "/programs/controlplane",
        "kubelet",
        "--config=/run/cotenant/kubelet.json",
        "--kubeconfig=/run/cotenant/kubelet.kubeconfig",
        "--node-ip=10.89.0.11",
        "--hostname-override=node-2",
        "--v=1",
    ]
    assert components.proxy(cluster_plan()) == [
        "/programs/controlplane",
        "kube-proxy",
        "--config=/run/cotenant/kube-proxy.json",
    ]


def test_a_kubelet_lets_no_stranger_in_and_serves_with_the_nodes_own_certificate() -> None:
    made = components.kubelet_configuration(cluster_plan(), STATE, node_plan(1))
    assert {key: made[key] for key in ("address", "authentication", "authorization", "tlsCertFile")} == {
        "address": "10.89.0.11",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/state/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": "/state/pki/node-2-serving.crt",
    }
    assert (made["clusterDNS"], made["clusterDomain"]) == (["10.96.0.10"], "cluster.local")
    assert made["containerRuntimeEndpoint"] == "unix:///run/cotenant/cri.sock"


def test_a_node_offers_what_its_plan_allows() -> None:
    made = components.kubelet_configuration(cluster_plan(), STATE, node_plan(pods=30, withheld_bytes=5 << 30))
    assert (made["maxPods"], made["systemReserved"]) == (30, {"ephemeral-storage": str(5 << 30)})
    assert components.kubelet_configuration(cluster_plan(), STATE, node_plan())["systemReserved"] == {}


def test_the_proxy_knows_the_pods_of_the_whole_cluster_and_its_own_node() -> None:
    assert components.proxy_configuration(cluster_plan(), node_plan()) == {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": "/run/cotenant/kube-proxy.kubeconfig"},
        "clusterCIDR": "10.244.0.0/16",
        "hostnameOverride": "node-1",
        "bindAddress": "10.89.0.10",
        "conntrack": {"maxPerCore": 0, "min": 0},
        "nftables": {"minSyncPeriod": "100ms"},
    }
