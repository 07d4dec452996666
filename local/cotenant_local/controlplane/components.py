"""Command lines and configuration of the components beside the API server. Pure except `write_configuration`.

Flags differ from the defaults only if the machine demands it: no leader election for one replica, no root, several
kubelets on one machine. Each such line has its reason.
"""

import json
from typing import Final

from cotenant_local.host.addresses import in_url, is_v6
from cotenant_local.host.cluster_folder import ClusterFolder, write_secret
from cotenant_local.host.cluster_plan import ClusterPlan

API_PORT, FAULTY_PORT = 6443, 6444
DOMAIN: Final = "cluster.local"
OLDEST = {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
"""What an old control plane is made of; etcd and CoreDNS belong to no version of Kubernetes."""
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # What holds a Lease by an account is an operator, and a test may ask which; and who of them writes Events.
        {
            "level": "Metadata",
            "userGroups": ["system:serviceaccounts"],
            "resources": [{"group": "coordination.k8s.io"}, {"group": "", "resources": ["events"]}],
        },
        # Leases and events drown everything else; secrets and tokens must not be copied into a log.
        {"level": "None", "resources": [{"group": "coordination.k8s.io"}, {"group": "", "resources": ["events"]}]},
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi*"]},
        {"level": "None", "verbs": ["get", "list", "watch"], "userGroups": ["system:nodes"]},
        {"level": "Metadata"},
    ],
}
COREFILE = """\
.:53 {{
    bind {address}
    errors
    health {listener}:8080
    ready {listener}:8181
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 1
    }}
}}
"""


def etcd(plan: ClusterPlan, state: ClusterFolder) -> list[str]:
    pki = state.pki
    return [
        *program(plan, "etcd"),
        f"--data-dir={state.etcd}",
        "--listen-client-urls=https://127.0.0.1:2379",
        "--advertise-client-urls=https://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        f"--cert-file={pki}/etcd.crt",
        f"--key-file={pki}/etcd.key",
        f"--trusted-ca-file={pki}/etcd-ca.crt",
        "--client-cert-auth",
        # A power cut may lose the last writes of a cluster on a laptop; waiting for the disk costs every test.
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
        "--auto-compaction-retention=5m",
        "--log-level=warn",
    ]


def apiserver(plan: ClusterPlan, state: ClusterFolder) -> list[str]:
    pki = state.pki
    return [
        *program(plan, "kube-apiserver"),
        "--etcd-servers=https://127.0.0.1:2379",
        f"--etcd-cafile={pki}/etcd-ca.crt",
        f"--etcd-certfile={pki}/apiserver-etcd-client.crt",
        f"--etcd-keyfile={pki}/apiserver-etcd-client.key",
        f"--advertise-address={plan.addresses.control_plane}",
        *(["--bind-address=::"] if is_v6(plan.addresses.lan) else []),  # by default it listens on IPv4 alone
        f"--service-cluster-ip-range={plan.addresses.services}",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt",
        f"--kubelet-client-key={pki}/apiserver-kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",  # node names are in no DNS here
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
        f"--service-account-key-file={pki}/service-accounts.pub",
        f"--service-account-signing-key-file={pki}/service-accounts.key",
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy-client.crt",
        f"--proxy-client-key-file={pki}/front-proxy-client.key",
        "--enable-aggregator-routing=true",  # no kube-proxy beside the API server: it dials endpoints itself
        f"--audit-policy-file={state.config}/audit-policy.json",
        f"--audit-log-path={state.logs}/audit.log",
        "--audit-log-maxsize=100",
        "--audit-log-maxbackup=2",
        # SIGTERM ends it: without these two it waits a minute for watches that nothing closes.
        "--shutdown-send-retry-after=true",
        "--shutdown-watch-termination-grace-period=1s",
        "--profiling=false",
    ]


def controller_manager(plan: ClusterPlan, state: ClusterFolder) -> list[str]:
    pki = state.pki
    return [
        *program(plan, "kube-controller-manager"),
        *_own_kubeconfig(state, "kube-controller-manager"),
        "--leader-elect=false",  # there is one
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki}/service-accounts.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        f"--cluster-cidr={plan.addresses.pods}",
        f"--service-cluster-ip-range={plan.addresses.services}",
        "--allocate-node-cidrs=false",  # the Node objects already carry their ranges
        # Kubelets here renew their lease every 2.5 s; a machine that is busy with everything else is not a lost node.
        "--node-monitor-period=2s",
        "--node-monitor-grace-period=30s",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
        "--profiling=false",
    ]


def scheduler(plan: ClusterPlan, state: ClusterFolder) -> list[str]:
    return [
        *program(plan, "kube-scheduler"),
        *_own_kubeconfig(state, "kube-scheduler"),
        "--leader-elect=false",
        f"--client-ca-file={state.pki}/ca.crt",
        f"--requestheader-client-ca-file={state.pki}/front-proxy-ca.crt",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    ]


def dns(plan: ClusterPlan, state: ClusterFolder) -> list[str]:
    return [*program(plan, "coredns"), "-conf", f"{state.config}/Corefile"]


def api_faults(plan: ClusterPlan, state: ClusterFolder) -> list[str]:
    return [
        str(plan.programs / "apifaults"),
        f"-pki={state.pki}",
        f"-listen=:{FAULTY_PORT}",
        f"-target={in_url(plan.addresses.control_plane)}:6443",
        f"-faults={state.api_faults}",
    ]


def api_forward(plan: ClusterPlan, listener: int, port: int) -> list[str]:
    return [str(plan.programs / "forward"), f"{listener}={in_url(plan.addresses.control_plane)}:{port}"]


def service_forwards(plan: ClusterPlan, listeners: list[int], node_pid: int) -> list[str]:
    """Runs in a node's network, because only there Service addresses are routed."""
    targets = []
    for listener, (service, _) in zip(listeners, plan.forwards, strict=True):
        path, _, port = service.partition(":")
        namespace, _, name = path.partition("/")
        targets.append(f"{listener}={name}.{namespace}.svc.{DOMAIN}:{port}")
    there = ["nsenter", f"--net=/proc/{node_pid}/ns/net"]
    return [*there, str(plan.programs / "forward"), f"-resolver={in_url(plan.addresses.control_plane)}:53", *targets]


def volumes(plan: ClusterPlan, state: ClusterFolder) -> list[str]:
    return [str(plan.python), "-m", "cotenant_local.controlplane.volume_provisioner", str(state.path)]


def metrics(plan: ClusterPlan, state: ClusterFolder) -> list[str]:
    return [str(plan.python), "-m", "cotenant_local.metrics.metrics_api", str(state.path)]


def write_configuration(plan: ClusterPlan, state: ClusterFolder) -> None:
    """The files that the control plane's command lines name."""
    write_secret(state.config / "audit-policy.json", json.dumps(AUDIT_POLICY).encode())
    address = plan.addresses.control_plane
    corefile = COREFILE.format(
        address=address, listener=in_url(address), domain=DOMAIN, kubeconfig=state.config / "coredns.kubeconfig"
    )
    write_secret(state.config / "Corefile", corefile.encode())


def program(plan: ClusterPlan, component: str) -> list[str]:
    if plan.oldest and component in OLDEST:
        return [str(plan.oldest / "oldest"), component]
    return [str(plan.programs / "controlplane"), component]


def _own_kubeconfig(state: ClusterFolder, component: str) -> list[str]:
    path = state.config / f"{component}.kubeconfig"
    return [f"--kubeconfig={path}", f"--authentication-kubeconfig={path}", f"--authorization-kubeconfig={path}"]
