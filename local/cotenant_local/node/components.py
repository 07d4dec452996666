"""Command lines and configuration of a node's kubelet and kube-proxy. Pure.

As in the control plane's `components`, each line that differs from the defaults has its reason.
"""

from typing import Any, Final

from cotenant_local.controlplane.components import DOMAIN, program
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.cluster_plan import ClusterPlan, NodePlan

CRI_SOCKET: Final = "/run/cotenant/cri.sock"


def kubelet(plan: ClusterPlan, node: NodePlan) -> list[str]:
    return [
        *program(plan, "kubelet"),
        "--config=/run/cotenant/kubelet.json",
        "--kubeconfig=/run/cotenant/kubelet.kubeconfig",
        f"--node-ip={node.address}",
        f"--hostname-override={node.name}",
        "--v=1",
    ]


def proxy(plan: ClusterPlan) -> list[str]:
    return [*program(plan, "kube-proxy"), "--config=/run/cotenant/kube-proxy.json"]


def kubelet_configuration(plan: ClusterPlan, state: ClusterFolder, node: NodePlan) -> dict[str, Any]:
    pki = state.pki
    withheld = {"ephemeral-storage": str(node.withheld_bytes)} if node.withheld_bytes else {}
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{pki}/{node.name}-serving.crt",
        "tlsPrivateKeyFile": f"{pki}/{node.name}-serving.key",
        "containerRuntimeEndpoint": f"unix://{CRI_SOCKET}",
        "clusterDomain": DOMAIN,
        "clusterDNS": [plan.addresses.dns_service],
        "resolvConf": "/run/cotenant/resolv.conf",
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "maxPods": node.pods,
        # What an ordinary user cannot do: cgroups per QoS class, sysctls of the machine, a lower OOM score.
        # Without cgroups per pod nothing would limit a pod as a whole: such pods are refused, not left without limits.
        "featureGates": {
            "KubeletInUserNamespace": True,
            "PodLevelResources": False,
            "InPlacePodLevelResourcesVerticalScaling": False,
        },
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "systemReserved": withheld,
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "localStorageCapacityIsolation": True,
        "makeIPTablesUtilChains": False,
        "nodeLeaseDurationSeconds": 10,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",  # a changed Secret reaches its pods so soon, instead of after a minute or two
        "serializeImagePulls": False,
        # The disk and memory belong to the user of the machine, and may run low without losing pods for it.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "shutdownGracePeriod": "0s",
    }


def proxy_configuration(plan: ClusterPlan, node: NodePlan) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": "/run/cotenant/kube-proxy.kubeconfig"},
        "clusterCIDR": plan.addresses.pods,
        "hostnameOverride": node.name,
        "bindAddress": node.address,
        "conntrack": {"maxPerCore": 0, "min": 0},  # the table's size belongs to the machine
        "nftables": {"minSyncPeriod": "100ms"},
    }
