"""The pods of operator and agent: what they may do, see and run, and who may ask for their metrics."""

import json
from typing import Any

import pytest

from cotenant.cli.main import build_parser
from tests.chart.rendering.workloads import (
    DEFAULTED,
    NAMESPACE,
    OF_A_VOLUME,
    SET_BY_THE_CHART,
    Render,
    container_of,
    env_of,
    pod_of,
)


def test_every_pod_keeps_the_restricted_profile_but_for_the_hosts_paths(render: Render) -> None:
    objects = render()
    for workload in (objects["Deployment", "cotenant-operator"], objects["DaemonSet", "cotenant-agent"]):
        pod, container = pod_of(workload), container_of(workload)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},  # there too, where policies of Kyverno look
        }
        assert not {"hostNetwork", "hostIPC"} & pod.keys()
        # A Service named cotenant in the namespace would set COTENANT_PORT.
        assert pod["enableServiceLinks"] is False
        assert {"httpGet": {"path": "/healthz", "port": "http"}}.items() <= container["livenessProbe"].items()
        assert {"httpGet": {"path": "/readyz", "port": "http"}}.items() <= container["readinessProbe"].items()


@pytest.mark.parametrize(
    ("agent", "user"),
    [({}, 65533), ({"host": {"proc": False}}, None), ({"simulate": True}, None)],
    ids=["real GPUs", "without the host's processes", "simulated GPUs"],
)
def test_an_agent_that_watches_processes_is_among_them_as_a_user_of_its_own(
    render: Render, agent: dict[str, Any], user: int | None
) -> None:
    """The driver shows only processes of the caller's PID namespace. Jobs run as 65532."""
    objects = render({"agent": agent, "openshift": {"enabled": True}})
    pod = pod_of(objects["DaemonSet", "cotenant-agent"])
    seen = [pod.get("hostPID", False), any(volume["name"] == "proc" for volume in pod["volumes"])]
    seen += [objects["SecurityContextConstraints", "cotenant-agent"]["allowHostPID"]]
    assert seen == [user is not None] * 3
    assert pod["securityContext"].get("runAsUser") == (None if agent.get("simulate") else 65533)
    assert "hostPID" not in pod_of(objects["Deployment", "cotenant-operator"])


def test_the_dashboard_has_no_account_to_speak_of(render: Render) -> None:
    """No token in its pod, no role bound to its account: what a page shows comes by the token of who looks."""
    objects = render({"dashboard": {"enabled": True, "trustedProxies": ["10.0.12.7/32"], "proxyHeader": "X-Token"}})
    workload = objects["Deployment", "cotenant-dashboard"]
    pod, container = pod_of(workload), container_of(workload)
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountToken" not in json.dumps(workload)
    assert container["command"] == [
        "python",
        "-m",
        "cotenant",
        "dashboard",
        "--certificate=/etc/cotenant/certificate",
        "--port=8443",
        "--trusted-proxy=10.0.12.7/32",
        "--proxy-header=X-Token",
    ]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},  # there too, where policies of Kyverno look
    }
    bindings = [one for (kind, _), one in objects.items() if kind in ("RoleBinding", "ClusterRoleBinding")]
    assert not [one for one in bindings if any(who["name"] == "cotenant-dashboard" for who in one["subjects"])]
    assert build_parser().parse_args(container["command"][3:]).proxy_header == "X-Token"


def test_sessions_are_opened_on_a_port_of_their_own_with_a_certificate_for_their_names(render: Render) -> None:
    objects = render({"dashboard": {"enabled": True, "sessions": {"host": "sessions.example.com:8444"}}})
    workload = objects["Deployment", "cotenant-dashboard"]
    args = build_parser().parse_args(container_of(workload)["command"][3:])
    assert (args.sessions_host, args.sessions_port) == ("sessions.example.com:8444", 8444)
    assert {"name": "sessions", "containerPort": 8444} in container_of(workload)["ports"]
    assert {"name": "sessions", "port": 8444, "targetPort": "sessions"} in objects["Service", "cotenant-dashboard"][
        "spec"
    ]["ports"]
    policy = objects["NetworkPolicy", "cotenant-dashboard"]["spec"]
    assert {"protocol": "TCP", "port": "sessions"} in policy["ingress"][0]["ports"]
    assert not [one for one in policy["egress"] if "to" in one], "it reaches the API server, and no pod"
    assert "*.sessions.example.com" in json.dumps(objects["Deployment", "cotenant-operator"])
    usual = render({"dashboard": {"enabled": True}})
    assert "sessions" not in json.dumps(
        [usual["Deployment", "cotenant-dashboard"], usual["Service", "cotenant-dashboard"]]
    )


@pytest.mark.parametrize("name", ["cotenant-operator", "cotenant-agent", "cotenant-dashboard"])
def test_every_part_reaches_an_api_server_on_its_own_port(render: Render, name: str) -> None:
    """Network plugins look at the port behind the Service: kubeadm has 6443, minikube 8443, MicroK8s 16443."""
    policy = render({"dashboard": {"enabled": True}})["NetworkPolicy", name]["spec"]
    open_to_all = {port["port"] for rule in policy["egress"] if "to" not in rule for port in rule["ports"]}
    assert {443, 6443, 8443, 16443} <= open_to_all


def test_tokens_of_accounts_last_ten_minutes_and_are_bound_to_their_pods(render: Render) -> None:
    """Projected tokens do this. The API server accepts the tokens that Kubernetes mounts by itself for a year."""
    objects = render()
    for workload in (objects["Deployment", "cotenant-operator"], objects["DaemonSet", "cotenant-agent"]):
        assert pod_of(workload)["automountServiceAccountToken"] is False
        (account,) = [volume["projected"]["sources"] for volume in pod_of(workload)["volumes"] if "projected" in volume]
        assert account[0] == {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}


def test_metrics_without_access_control_are_asked_for_by_name(render: Render) -> None:
    objects = render({"metrics": {"secure": False, "monitors": True}})
    assert env_of(objects["Deployment", "cotenant-operator"])["COTENANT_METRICS_READERS"] == "everybody"
    assert "--metrics-readers=everybody" in container_of(objects["DaemonSet", "cotenant-agent"])["args"]
    (endpoint,) = objects["ServiceMonitor", "cotenant-agent"]["spec"]["endpoints"]
    assert endpoint == {"port": "metrics", "path": "/metrics", "interval": "30s", "honorLabels": True}
    for role in ("cotenant-operator", "cotenant-agent"):
        assert "tokenreviews" not in json.dumps(objects["ClusterRole", role])


@pytest.mark.parametrize(
    ("values", "authority", "credentials"),
    [
        (
            {},
            {"secret": {"name": "cotenant-metrics-serving", "key": "tls.crt"}},
            {"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"},
        ),
        (
            {"certificateSecret": "own", "credentials": {"name": "reader"}},
            {"secret": {"name": "own", "key": "ca.crt"}},
            {"authorization": {"credentials": {"name": "reader", "key": "token"}}},
        ),
    ],
    ids=["the chart's certificate", "a certificate and a token of one's own"],
)
def test_prometheus_shows_a_token_to_whom_it_can_trust(
    render: Render, values: dict[str, Any], authority: dict[str, Any], credentials: dict[str, Any]
) -> None:
    objects = render({"metrics": {"monitors": True, **values}})
    for part in ("operator", "agent"):
        (endpoint,) = objects["ServiceMonitor", f"cotenant-{part}"]["spec"]["endpoints"]
        tls = {"serverName": f"cotenant-{part}.{NAMESPACE}.svc", "ca": authority}
        assert endpoint == {
            "port": "metrics",
            "path": "/metrics",
            "interval": "30s",
            "scheme": "https",
            "tlsConfig": tls,
            **credentials,
            **({"honorLabels": True} if part == "agent" else {}),
        }


def test_a_real_agent_sees_all_gpus_and_the_host_read_only(render: Render) -> None:
    agent = render()["DaemonSet", "cotenant-agent"]
    assert pod_of(agent)["runtimeClassName"] == "nvidia"
    assert env_of(agent) == {
        "NODE_NAME": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "utility",
    }
    mounts = {m["mountPath"]: m.get("readOnly", False) for m in container_of(agent)["volumeMounts"]}
    assert mounts == {
        "/tmp": False,
        "/host/proc": True,
        "/host/sys/fs/cgroup": True,
        "/host/etc": True,
        "/host/usr": True,
        "/host/var/run/cdi": True,
        "/var/run/secrets/kubernetes.io/serviceaccount": True,
        "/etc/cotenant/certificate": True,
    }
    assert container_of(agent)["args"] == [
        "--runtime-class=nvidia",
        "--poll=2",
        '--worker-tolerations=[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]',
        "--metrics-certificate=/etc/cotenant/certificate",
    ]


def test_tolerations_that_are_taken_out_are_none(render: Render) -> None:
    objects = render({"worker": {"tolerations": None}})
    assert env_of(objects["Deployment", "cotenant-operator"])["COTENANT_TOLERATIONS"] == "[]"
    assert "--worker-tolerations=[]" in container_of(objects["DaemonSet", "cotenant-agent"])["args"]


def test_a_simulating_agent_touches_nothing_of_the_host(render: Render) -> None:
    agent = render({"agent": {"simulate": True}})["DaemonSet", "cotenant-agent"]
    assert "runtimeClassName" not in pod_of(agent)
    assert [volume["name"] for volume in pod_of(agent)["volumes"]] == ["tmp", "account", "certificate"]
    assert env_of(agent).keys() == {"NODE_NAME"}
    assert "--simulate" in container_of(agent)["args"]


@pytest.mark.parametrize(
    ("values", "images"),
    [
        ({}, "ghcr.io/cotenant/{}:0.1.0"),
        ({"image": {"registry": "registry.example/team", "tag": "1.2.3"}}, "registry.example/team/{}:1.2.3"),
    ],
)
def test_the_three_images_come_from_one_place(render: Render, values: dict[str, Any], images: str) -> None:
    objects = render(values)
    operator, agent = objects["Deployment", "cotenant-operator"], objects["DaemonSet", "cotenant-agent"]
    assert container_of(operator)["image"] == images.format("operator")
    assert container_of(agent)["image"] == images.format("agent")
    assert env_of(operator)["COTENANT_WORKER_IMAGE"] == images.format("worker")


@pytest.mark.parametrize(
    ("values", "volume"),
    [
        ({"storage": "EmptyDir"}, {"emptyDir": {"sizeLimit": "192Mi"}}),
        ({"storage": "PersistentVolumeClaim"}, {"persistentVolumeClaim": {"claimName": "cotenant-decision-log"}}),
        (
            {"storage": "PersistentVolumeClaim", "claimName": "own"},
            {"persistentVolumeClaim": {"claimName": "own"}},
        ),
    ],
)
def test_a_decision_log_on_a_volume_is_written_where_it_is_mounted(
    render: Render, values: dict[str, Any], volume: dict[str, Any]
) -> None:
    operator = render({"decisionLog": values | {"megabytes": 128}})["Deployment", "cotenant-operator"]
    pod, environment = operator["spec"]["template"]["spec"], env_of(operator)
    mounts = {one["name"]: one["mountPath"] for one in container_of(operator)["volumeMounts"]}
    assert environment.keys() == set(SET_BY_THE_CHART.values()) | set(OF_A_VOLUME.values()) | DEFAULTED
    assert mounts["decision-log"] == environment["COTENANT_DECISION_LOG_FOLDER"]
    assert environment["COTENANT_DECISION_LOG_MIB"] == "128"
    assert [one for one in pod["volumes"] if one["name"] == "decision-log"] == [{"name": "decision-log"} | volume]


@pytest.mark.parametrize("offered", [True, False])
def test_gpus_are_offered_by_claims_as_a_whole_or_not_at_all(render: Render, offered: bool) -> None:
    """The agent's flag, its folders and its user, the operator's setting, the DeviceClass: all of them, or none."""
    objects = render({"agent": {"dra": {"enabled": offered}}})
    pod = objects["DaemonSet", "cotenant-agent"]["spec"]["template"]["spec"]
    paths = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    sockets = {"/var/lib/kubelet/plugins/gpu.cotenant.dev", "/var/lib/kubelet/plugins_registry"}
    claims = env_of(objects["Deployment", "cotenant-operator"])["COTENANT_DEVICE_CLAIMS"]
    assert claims == ("counted" if offered else "off")
    assert [
        "--dra" in pod["containers"][0]["args"],
        sockets <= paths,
        pod["securityContext"].get("runAsUser") == 0,
        ("DeviceClass", "gpu.cotenant.dev") in objects,
        ("ValidatingAdmissionPolicy", "cotenant-agent-own-slices") in objects,
        ("ValidatingAdmissionPolicy", "cotenant-operator-resourceclaims") in objects,
    ] == [offered] * 6
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("counted", [True, False])
def test_shares_are_offered_to_the_kubelet_as_a_whole_or_not_at_all(render: Render, counted: bool) -> None:
    """The agent's flag, its folder and its user, and who may not request shares. The operator always may: nodes go on
    offering theirs for a while after it is switched off.
    """
    objects = render({"agent": {"devicePlugin": {"enabled": counted}, "dra": {"kubeletDir": "/data/kubelet"}}})
    pod = objects["DaemonSet", "cotenant-agent"]["spec"]["template"]["spec"]
    args = pod["containers"][0]["args"]
    paths = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    of_operator = json.dumps(objects["ValidatingAdmissionPolicy", "cotenant-operator-pods"]["spec"]["validations"])
    assert [
        "--device-plugin" in args,
        "--kubelet=/data/kubelet" in args,
        "/data/kubelet/device-plugins" in paths,
        pod["securityContext"].get("runAsUser") == 0,
        ("ValidatingAdmissionPolicy", "cotenant-device-shares") in objects,
    ] == [counted] * 5
    assert "name.startsWith('gpu.cotenant.dev/')" in of_operator
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("held", [True, False])
def test_shares_of_compute_are_held_by_a_daemon_set_of_its_own_or_not_at_all(render: Render, held: bool) -> None:
    """Programs end with their daemon, so an upgrade leaves its pods alone."""
    objects = render({"agent": {"dra": {"enabled": True}, "mps": {"enabled": held}, "nodeSelector": {"gpu": "yes"}}})
    agent = objects["DaemonSet", "cotenant-agent"]
    paths = {volume["hostPath"]["path"] for volume in pod_of(agent)["volumes"] if "hostPath" in volume}
    capabilities = "compute,utility" if held else "utility"
    assert env_of(agent)["NVIDIA_DRIVER_CAPABILITIES"] == capabilities
    assert [
        "--mps=/run/cotenant-mps" in container_of(agent)["args"],
        "/run/cotenant-mps" in paths,
        ("DaemonSet", "cotenant-mps") in objects,
    ] == [held] * 3
    if not held:
        return
    keeper = objects["DaemonSet", "cotenant-mps"]
    assert keeper["spec"]["updateStrategy"] == {"type": "OnDelete"}
    pod, container = pod_of(keeper), container_of(keeper)
    assert (pod["hostPID"], pod["automountServiceAccountToken"]) == (True, False)
    assert pod["nodeSelector"] == {"gpu": "yes", "kubernetes.io/os": "linux"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["command"] == ["python", "-m", "cotenant_agent.mps.keeper"]
    (volume, _) = pod["volumes"]
    assert volume == {"name": "mps", "hostPath": {"path": "/run/cotenant-mps", "type": "DirectoryOrCreate"}}
    assert keeper["spec"]["selector"] != agent["spec"]["selector"]


def test_mps_without_claims_is_refused_with_the_reason(render: Render) -> None:
    with pytest.raises(ValueError, match=r"agent\.mps\.enabled needs agent\.dra\.enabled"):
        render({"agent": {"mps": {"enabled": True}}})


def test_the_agents_of_other_devices_need_nothing_of_nvidias_and_stay_on_their_nodes(render: Render) -> None:
    other = {"enabled": True, "nodeSelector": {"maker": "amd"}, "resources": ["amd.com/gpu"]}
    values = {"agent": {"otherDevices": other, "nodeSelector": {"maker": "nvidia"}, "gpuReset": True}}
    objects = render(values)
    first, second = objects["DaemonSet", "cotenant-agent"], objects["DaemonSet", "cotenant-agent-other-devices"]
    linux = {"kubernetes.io/os": "linux"}
    selectors = [pod_of(one)["nodeSelector"] for one in (first, second)]
    assert selectors == [linux | {"maker": "nvidia"}, linux | {"maker": "amd"}]
    assert first["spec"]["selector"] != second["spec"]["selector"]
    assert ("runtimeClassName" in pod_of(second), set(env_of(second))) == (False, {"NODE_NAME"})
    assert pod_of(second)["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert [mount["mountPath"] for mount in container_of(second)["volumeMounts"] if mount["name"] == "proc"] == [
        "/host/proc"
    ]
    assert container_of(second)["args"] == [
        "--runtime-class=nvidia",
        "--poll=2",
        '--worker-tolerations=[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]',
        "--metrics-certificate=/etc/cotenant/certificate",
        "--devices=amd.com/gpu",
    ]
    assert container_of(first)["args"] == container_of(second)["args"][:-1]
    values["agent"]["otherDevices"] = other | {"nodeSelector": {"maker": "amd", "pool": "b"}}
    terms = [term["matchExpressions"] for term in agent_terms(render(values))]
    assert terms == [
        [{"key": key, "operator": "NotIn", "values": [value]}] for key, value in (("maker", "amd"), ("pool", "b"))
    ], "one of them is enough: the other agents want both"
    assert "affinity" not in pod_of(second)


def test_the_agents_of_amds_gpus_open_them_only_where_their_figures_are_asked_for(render: Render) -> None:
    other = {"enabled": True, "nodeSelector": {"maker": "amd"}, "resources": ["amd.com/gpu"], "rocm": "/opt/rocm"}
    objects = render({"agent": {"otherDevices": other}})
    first, second = objects["DaemonSet", "cotenant-agent"], objects["DaemonSet", "cotenant-agent-other-devices"]
    profile = {"type": "RuntimeDefault"}
    assert container_of(second)["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "privileged": True,
        "seccompProfile": profile,
    }
    assert pod_of(second)["securityContext"]["runAsUser"] == 0
    assert container_of(second)["args"][-2:] == ["--devices=amd.com/gpu", "--amd-smi=/opt/rocm/bin/amd-smi"]
    (mounted,) = (one for one in container_of(second)["volumeMounts"] if one["name"] == "rocm")
    assert mounted == {"name": "rocm", "mountPath": "/opt/rocm", "readOnly": True}
    assert "privileged" not in container_of(first)["securityContext"]
    assert "rocm" not in json.dumps(first)


def test_agents_of_other_devices_without_nodes_are_refused(render: Render) -> None:
    with pytest.raises(ValueError, match=r"agent\.otherDevices\.nodeSelector is empty"):
        render({"agent": {"otherDevices": {"enabled": True}}})


def agent_terms(objects: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    affinity = pod_of(objects["DaemonSet", "cotenant-agent"]).get("affinity")
    (rule,) = affinity["nodeAffinity"].values() if affinity else ({"nodeSelectorTerms": []},)
    return list(rule["nodeSelectorTerms"])


def takes(terms: list[dict[str, Any]], labels: dict[str, str]) -> bool:
    """Whether a node with these labels fits one of the terms, as the kube-scheduler reads them."""
    holds = {
        "In": lambda rule: labels.get(rule["key"]) in rule["values"],
        "NotIn": lambda rule: labels.get(rule["key"]) not in rule["values"],
        "Exists": lambda rule: rule["key"] in labels,
    }
    return not terms or any(all(holds[rule["operator"]](rule) for rule in term["matchExpressions"]) for term in terms)


@pytest.mark.parametrize(
    ("labels", "runs"),
    [
        pytest.param({"nvidia.com/gpu.present": "true"}, True, id="GPU Feature Discovery"),
        pytest.param({"feature.node.kubernetes.io/pci-10de.present": "true"}, True, id="Node Feature Discovery"),
        pytest.param({"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, True, id="the same, by class"),
        pytest.param({"cloud.google.com/gke-accelerator": "nvidia-l4"}, True, id="GKE"),
        pytest.param({"k8s.amazonaws.com/accelerator": "nvidia-tesla-t4"}, True, id="EKS"),
        pytest.param({"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"}, True, id="Karpenter"),
        pytest.param({"kubernetes.azure.com/accelerator": "nvidia"}, True, id="AKS"),
        pytest.param({"cotenant.dev/gpu-class": ""}, True, id="by hand"),
        pytest.param({}, False, id="a node without GPUs"),
        pytest.param({"nvidia.com/gpu.present": "false"}, False, id="a node that says it has none"),
        pytest.param({"karpenter.k8s.aws/instance-gpu-manufacturer": "amd"}, False, id="another maker's GPUs"),
        pytest.param({"nvidia.com/gpu.present": "true", "maker": "amd"}, False, id="a node of the other agents"),
    ],
)
def test_agents_run_where_a_label_says_that_there_are_gpus(render: Render, labels: dict[str, str], runs: bool) -> None:
    other = {"otherDevices": {"enabled": True, "nodeSelector": {"maker": "amd"}}}
    values = {"agent": {"mps": {"enabled": True}, "dra": {"enabled": True}} | (other if "maker" in labels else {})}
    assert takes(agent_terms(render(values)), labels) == runs


@pytest.mark.parametrize(
    "agent", [{"simulate": True}, {"nodeSelector": {"pool": "gpu"}}], ids=["simulated GPUs", "nodes that were named"]
)
def test_labels_of_gpus_are_not_asked_for_where_the_values_say_which_nodes(
    render: Render, agent: dict[str, Any]
) -> None:
    assert agent_terms(render({"agent": agent})) == []


def test_a_replica_that_is_not_ready_holds_up_no_drain(render: Render) -> None:
    assert render()["PodDisruptionBudget", "cotenant-operator"]["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


ON_A_VOLUME = {"storage": "PersistentVolumeClaim", "accessModes": ["ReadWriteOnce"]}
ON_THE_NODE = {"hostNetwork": True, "settings": {"operator_cidrs": "10.0.0.0/16"}}


@pytest.mark.parametrize(
    ("values", "in_place"),
    [
        ({}, False),
        ({"operator": ON_THE_NODE, "query": {"port": 8444}}, True),
        ({"operator": {"replicas": 1}, "decisionLog": ON_A_VOLUME}, True),
        ({"operator": {"replicas": 1}}, False),
        ({"decisionLog": {"storage": "PersistentVolumeClaim"}}, False),
    ],
    ids=["usual", "ports of the node", "a volume of one pod", "one replica", "a volume of all"],
)
def test_an_upgrade_needs_no_port_or_volume_twice(render: Render, values: dict[str, Any], in_place: bool) -> None:
    strategy = render(values)["Deployment", "cotenant-operator"]["spec"].get("strategy")
    assert strategy == ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}} if in_place else None)


def test_images_may_be_named_by_digest(render: Render) -> None:
    digests = {name: f"sha256:{letter * 64}" for name, letter in (("operator", "a"), ("agent", "b"), ("worker", "c"))}
    objects = render({"image": {"registry": "example.com/mirror", "tag": "9", "digests": digests}})
    operator, agent = objects["Deployment", "cotenant-operator"], objects["DaemonSet", "cotenant-agent"]
    named = [container_of(operator)["image"], container_of(agent)["image"], env_of(operator)["COTENANT_WORKER_IMAGE"]]
    assert named == [f"example.com/mirror/{name}@{digest}" for name, digest in digests.items()]
    partly = render({"image": {"tag": "9", "digests": {"agent": digests["agent"]}}})
    assert container_of(partly["Deployment", "cotenant-operator"])["image"] == "ghcr.io/cotenant/operator:9"


def test_the_api_server_ranks_the_lease_as_a_leader_election_and_before_everything_else(render: Render) -> None:
    objects = render()
    schemas = {name: one["spec"] for (kind, name), one in objects.items() if kind == "FlowSchema"}
    levels = {name: one["priorityLevelConfiguration"]["name"] for name, one in schemas.items()}
    assert levels == {"cotenant-leader-election": "leader-election", "cotenant-operator": "workload-high"}
    lease, others = schemas["cotenant-leader-election"], schemas["cotenant-operator"]
    assert lease["matchingPrecedence"] < others["matchingPrecedence"] < 9000, "service-accounts has 9000"
    account = {"name": "cotenant-operator", "namespace": NAMESPACE}
    subject = {"kind": "ServiceAccount", "serviceAccount": account}
    assert [one["rules"][0]["subjects"] for one in schemas.values()] == [[subject]] * 2
    (rule,) = lease["rules"][0]["resourceRules"]
    assert (rule["resources"], rule["namespaces"]) == (["leases"], [NAMESPACE])
    without = render({"operator": {"flowSchema": {"enabled": False}}})
    assert not [kind for kind, _ in without if kind == "FlowSchema"]
