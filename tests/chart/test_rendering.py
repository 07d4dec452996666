"""What the chart renders, from which values, and which values it refuses."""

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant import names
from cotenant.api.resources.reserved_env import DENIED
from cotenant.cli import installation
from cotenant.controller.query_api.endpoint import SERVICE
from cotenant.controller.settings import Settings

pytestmark = pytest.mark.cluster

CHART = Path(__file__).parents[2] / "charts" / "cotenant"
NAMESPACE = "cotenant-system"
Render = Callable[..., dict[tuple[str, str], dict[str, Any]]]
SET_BY_THE_CHART = {
    "namespace": "COTENANT_NAMESPACE",
    "worker_image": "COTENANT_WORKER_IMAGE",
    "runtime_class": "COTENANT_RUNTIME_CLASS",
    "tolerations": "COTENANT_TOLERATIONS",
    "image_pull_secrets": "COTENANT_IMAGE_PULL_SECRETS",
    "tenant_namespaces": "COTENANT_TENANT_NAMESPACES",
    "metrics_readers": "COTENANT_METRICS_READERS",
    "metrics_certificate": "COTENANT_METRICS_CERTIFICATE",
    "device_claims": "COTENANT_DEVICE_CLAIMS",
    "query_certificate": "COTENANT_QUERY_CERTIFICATE",
    "query_address": "COTENANT_QUERY_ADDRESS",
}
DEFAULTED = {"COTENANT_POD_PRIORITY_CLASS"}
"""Variables that the chart sets unless `operator.settings` does."""
FIXED = {"identity", "lease_name", "port", "host", "metrics_port", "query_port"}
"""Settings that the chart leaves at their defaults, because RBAC, probes, Services and the Lease rely on them."""

MANAGED = ("bindings", "contracts", "evictions", "job-deletion", "managed-metadata", "managed-objects", "managed-pods")
TENANT_POLICIES = {f"cotenant-{what}" for what in (*MANAGED, "job-sizes", "job-users")} | {
    f"cotenant-tenant-{what}" for what in ("disruption-budgets", "namespaces", "networks", "pods")
}
OPERATED = (
    "base-networkpolicies",
    "deletes",
    "endpointslices",
    "events",
    "gpunodes",
    "jobs",
    "leases",
    "localqueues",
    "networkpolicies",
    "pods",
    "secret-deletes",
    "secrets",
    "services",
)
OPERATOR_POLICIES = {
    "cotenant-localqueues",
    "cotenant-reserved-names",
    *(f"cotenant-operator-{what}" for what in OPERATED),
}
QUESTIONS: set[str | tuple[str, str]] = {
    "v1alpha1.query.cotenant.dev",
    "cotenant-query",
    "cotenant-query-ipv4",
    "cotenant-query-ipv6",
    "cotenant-operator-authentication",
    "cotenant-operator-endpointslices",
}


def pod_of(workload: Mapping[str, Any]) -> Any:
    return workload["spec"]["template"]["spec"]


def container_of(workload: Mapping[str, Any]) -> Any:
    (container,) = pod_of(workload)["containers"]
    return container


def env_of(workload: Mapping[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container_of(workload)["env"]}


def test_by_default_these_objects_and_no_others(render: Render) -> None:
    assert sorted(render()) == [
        ("APIService", "v1alpha1.query.cotenant.dev"),
        ("ClusterRole", "cotenant-agent"),
        ("ClusterRole", "cotenant-metrics-reader"),
        ("ClusterRole", "cotenant-operator"),
        ("ClusterRole", "cotenant-queue-viewer"),
        ("ClusterRole", "cotenant-tenant-edit"),
        ("ClusterRole", "cotenant-tenant-view"),
        ("ClusterRoleBinding", "cotenant-agent"),
        ("ClusterRoleBinding", "cotenant-operator"),
        ("DaemonSet", "cotenant-agent"),
        ("Deployment", "cotenant-operator"),
        ("EndpointSlice", "cotenant-query-ipv4"),
        ("EndpointSlice", "cotenant-query-ipv6"),
        ("Lease", "cotenant-operator"),
        ("NetworkPolicy", "cotenant-agent"),
        ("NetworkPolicy", "cotenant-operator"),
        ("PodDisruptionBudget", "cotenant-operator"),
        ("PriorityClass", "cotenant-workers"),
        ("Role", "cotenant-operator"),
        ("RoleBinding", "cotenant-operator"),
        ("RoleBinding", "cotenant-operator-authentication"),
        ("Secret", "cotenant-metrics"),
        ("Secret", "cotenant-query"),
        ("Service", "cotenant-operator"),
        ("Service", "cotenant-query"),
        ("ServiceAccount", "cotenant-agent"),
        ("ServiceAccount", "cotenant-operator"),
        ("ValidatingAdmissionPolicy", "cotenant-agent-own-node"),
        ("ValidatingAdmissionPolicy", "cotenant-bindings"),
        ("ValidatingAdmissionPolicy", "cotenant-contracts"),
        ("ValidatingAdmissionPolicy", "cotenant-evictions"),
        ("ValidatingAdmissionPolicy", "cotenant-job-deletion"),
        ("ValidatingAdmissionPolicy", "cotenant-job-sizes"),
        ("ValidatingAdmissionPolicy", "cotenant-job-users"),
        ("ValidatingAdmissionPolicy", "cotenant-localqueues"),
        ("ValidatingAdmissionPolicy", "cotenant-managed-metadata"),
        ("ValidatingAdmissionPolicy", "cotenant-managed-objects"),
        ("ValidatingAdmissionPolicy", "cotenant-managed-pods"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-base-networkpolicies"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-deletes"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-endpointslices"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-events"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-gpunodes"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-jobs"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-leases"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-localqueues"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-networkpolicies"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-pods"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-secret-deletes"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-secrets"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-services"),
        ("ValidatingAdmissionPolicy", "cotenant-reserved-names"),
        ("ValidatingAdmissionPolicy", "cotenant-tenant-disruption-budgets"),
        ("ValidatingAdmissionPolicy", "cotenant-tenant-namespaces"),
        ("ValidatingAdmissionPolicy", "cotenant-tenant-networks"),
        ("ValidatingAdmissionPolicy", "cotenant-tenant-pods"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-agent-own-node"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-bindings"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-contracts"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-evictions"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-job-deletion"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-job-sizes"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-job-users"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-localqueues"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-managed-metadata"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-managed-objects"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-managed-pods"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-base-networkpolicies"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-deletes"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-endpointslices"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-events"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-gpunodes"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-jobs"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-leases"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-localqueues"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-networkpolicies"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-pods"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-secret-deletes"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-secrets"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-services"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-reserved-names"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-tenant-disruption-budgets"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-tenant-namespaces"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-tenant-networks"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-tenant-pods"),
    ]


@pytest.mark.parametrize(
    ("values", "gone", "new"),
    [
        pytest.param(
            {"agent": {"enabled": False}},
            {"cotenant-agent", "cotenant-agent-own-node"},
            set(),
            id="no agent",
        ),
        pytest.param(
            {"admission": {"enabled": False}},
            TENANT_POLICIES | OPERATOR_POLICIES,
            set(),
            id="no admission policies",
        ),
        pytest.param(
            {"admission": {"requireRestricted": False}},
            {"cotenant-tenant-namespaces"},
            set(),
            id="no rule for namespaces",
        ),
        pytest.param(
            {"tenants": {"aggregateRoles": False}},
            {"cotenant-tenant-edit", "cotenant-tenant-view"},
            set(),
            id="no roles",
        ),
        pytest.param({"queues": [{"name": "team-a"}]}, set(), {("Queue", "team-a")}, id="a queue"),
        pytest.param(
            {"tenants": {"queueViewers": ["system:authenticated"]}},
            set(),
            {("ClusterRoleBinding", "cotenant-queue-viewer")},
            id="queues for all to see",
        ),
        pytest.param(
            {"metrics": {"monitors": True}},
            set(),
            {
                ("ServiceMonitor", "cotenant-operator"),
                ("ServiceMonitor", "cotenant-agent"),
                ("Service", "cotenant-agent"),
                ("PrometheusRule", "cotenant"),
            },
            id="monitors",
        ),
        pytest.param({"metrics": {"secure": False}}, {"cotenant-metrics"}, set(), id="metrics for everybody"),
        pytest.param({"metrics": {"certificateSecret": "own"}}, {"cotenant-metrics"}, set(), id="a certificate"),
        pytest.param(
            {"metrics": {"readers": [{"name": "prometheus", "namespace": "monitoring"}]}},
            set(),
            {("ClusterRoleBinding", "cotenant-metrics-reader")},
            id="a reader",
        ),
        pytest.param({"query": {"enabled": False}}, QUESTIONS, set(), id="no questions"),
        pytest.param(
            {"query": {"certificateSecret": "own", "caBundle": "UEVN"}},
            {("Secret", "cotenant-query")},
            set(),
            id="a certificate of the questions' own",
        ),
        pytest.param({"networkPolicies": {"enabled": False}}, {"NetworkPolicy"}, set(), id="no network policies"),
        pytest.param(
            {"agent": {"namespace": "gpu", "createNamespace": True}}, set(), {("Namespace", "gpu")}, id="a namespace"
        ),
        pytest.param(
            {"operator": {"podDisruptionBudget": {"enabled": False}}}, {"PodDisruptionBudget"}, set(), id="no budget"
        ),
        pytest.param({"worker": {"priority": None}}, {"PriorityClass"}, set(), id="no priority of worker pods"),
        pytest.param(
            {"operator": {"settings": {"pod_priority_class": "training"}}},
            {"PriorityClass"},
            set(),
            id="a priority class of the administrator's own",
        ),
    ],
)
def test_a_switch_changes_its_objects_and_no_others(
    render: Render, values: dict[str, Any], gone: set[str | tuple[str, str]], new: set[tuple[str, str]]
) -> None:
    usual = render().keys()
    kept = {key for key in usual if key[1] not in gone and key[0] not in gone and key not in gone}
    assert render(values).keys() == kept | new


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
        }
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        # A Service named cotenant in the namespace would set COTENANT_PORT.
        assert pod["enableServiceLinks"] is False
        assert {"httpGet": {"path": "/healthz", "port": "http"}}.items() <= container["livenessProbe"].items()
        assert {"httpGet": {"path": "/readyz", "port": "http"}}.items() <= container["readinessProbe"].items()


def test_tokens_of_accounts_last_ten_minutes_and_are_bound_to_their_pods(render: Render) -> None:
    """By a projection: of those that Kubernetes mounts by itself the API server accepts each for a year."""
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
    assert endpoint == {"port": "metrics", "path": "/metrics", "interval": "30s"}
    for role in ("cotenant-operator", "cotenant-agent"):
        assert "tokenreviews" not in json.dumps(objects["ClusterRole", role])


@pytest.mark.parametrize(
    ("values", "authority", "credentials"),
    [
        (
            {},
            {"secret": {"name": "cotenant-metrics", "key": "tls.crt"}},
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
        "/host/etc/nvidia-container-runtime": True,
        "/host/etc/cdi": True,
        "/host/var/run/cdi": True,
        "/var/run/secrets/kubernetes.io/serviceaccount": True,
        "/etc/cotenant/certificate": True,
    }
    assert container_of(agent)["args"] == [
        "--runtime-class=nvidia",
        "--poll=2",
        "--metrics-certificate=/etc/cotenant/certificate",
    ]


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
    ("given", "want"),
    [(300, "300"), (2.5, "2.5"), (2_000_000, "2000000"), ("2.5", "2.5")],
    ids=["whole", "fraction", "large", "text"],
)
def test_a_setting_reaches_the_operator_as_written(render: Render, given: object, want: str) -> None:
    objects = render({"operator": {"settings": {"start_timeout_s": given}}})
    assert env_of(objects["Deployment", "cotenant-operator"])["COTENANT_START_TIMEOUT_S"] == want


def test_a_simulation_finds_the_settings_in_what_the_chart_renders(render: Render) -> None:
    found = installation.from_documents(render({"operator": {"settings": {"moves": 7}}}).values())
    assert found is not None
    assert (installation.changed(found[0]), found[1]) == ({"moves": 7}, f"Deployment {NAMESPACE}/cotenant-operator")


@pytest.mark.parametrize(
    ("values", "priority_class", "bounded"),
    [
        pytest.param({}, "cotenant-workers", True, id="the chart's"),
        pytest.param({"operator": {"settings": {"pod_priority_class": "mine"}}}, "mine", False, id="their own"),
        pytest.param({"worker": {"priority": None}}, None, False, id="the cluster's default"),
    ],
)
def test_worker_pods_have_one_priority_class_and_tenants_pods_are_bounded_by_the_charts(
    render: Render, values: dict[str, Any], priority_class: str | None, bounded: bool
) -> None:
    rendered = render(values)
    assert env_of(rendered["Deployment", "cotenant-operator"]).get("COTENANT_POD_PRIORITY_CLASS") == priority_class
    policy = rendered["ValidatingAdmissionPolicy", "cotenant-tenant-pods"]
    rules = [rule["expression"] for rule in policy["spec"]["validations"]]
    assert any("object.spec.?priority.orValue(0) <= 1000000" in rule for rule in rules) is bounded


def test_the_operator_accepts_every_variable_of_the_chart(render: Render) -> None:
    environment = env_of(render()["Deployment", "cotenant-operator"])
    assert environment.keys() == set(SET_BY_THE_CHART.values()) | DEFAULTED
    settings = Settings.read({key: value for key, value in environment.items() if isinstance(value, str)})
    assert settings.toleration_list == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_the_schema_lists_every_setting_that_is_not_the_charts_own() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    listed = schema["properties"]["operator"]["properties"]["settings"]["properties"]
    assert listed.keys() == set(Settings.model_fields) - SET_BY_THE_CHART.keys() - FIXED
    about = {name: field.description for name, field in Settings.model_fields.items()}
    assert {name: entry["description"] for name, entry in listed.items()} == {name: about[name] for name in listed}


def keys_of(values: Mapping[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for key, value in values.items():
        found.add(prefix + key)
        if isinstance(value, dict):
            found |= keys_of(value, f"{prefix}{key}.")
    return found


def test_the_schema_and_the_values_name_the_same_things() -> None:
    values = keys_of(yaml.safe_load((CHART / "values.yaml").read_text()))

    def schema_keys(schema: Mapping[str, Any], prefix: str = "") -> set[str]:
        found = set()
        for key, entry in schema.get("properties", {}).items():
            found.add(prefix + key)
            found |= schema_keys(entry, f"{prefix}{key}.")
        return found

    schema = schema_keys(json.loads((CHART / "values.schema.json").read_text()))
    open_ended = {"operator.resources", "agent.resources", "operator.settings", "metrics.dashboardLabels"}
    inside = {key for key in values | schema if any(key.startswith(f"{name}.") for name in open_ended)}
    assert values - inside == schema - inside - {"global"}


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"operatr": {}}, "'operatr' not allowed"),
        ({"operator": {"replicas": 0}}, "/operator/replicas"),
        ({"operator": {"replicas": "two"}}, "/operator/replicas"),
        ({"operator": {"settings": {"nonsense": 1}}}, "/operator/settings"),
        ({"operator": {"settings": {"tick_s": -1}}}, "/operator/settings/tick_s"),
        ({"operator": {"settings": {"tick_s": "soon"}}}, "/operator/settings/tick_s"),
        ({"operator": {"settings": {"port": 1}}}, "/operator/settings"),
        ({"agent": {"simulate": "yes"}}, "/agent/simulate"),
        ({"agent": {"pollSeconds": 0}}, "/agent/pollSeconds"),
        ({"agent": {"runtimeClass": "No Name"}}, "/agent/runtimeClass"),
        ({"agent": {"tolerations": [{"operator": "exists"}]}}, "/agent/tolerations/0/operator"),
        ({"agent": {"resources": {"limits": {"memory": "lots"}}}}, "/agent/resources/limits/memory"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"queues": [{"spec": {}}]}, "missing property 'name'"),
        ({"queues": [{"name": "Team A"}]}, "/queues/0/name"),
        ({"queues": [{"name": "a", "quotas": []}]}, "/queues/0"),
        ({"admission": {"actions": []}}, "/admission/actions"),
        ({"admission": {"actions": ["Deny", "Warn"]}}, "/admission/actions"),
        ({"metrics": {"interval": 30}}, "/metrics/interval"),
        ({"query": {"certificateSecret": "own"}}, "/query/caBundle"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_its_path(render: Render, values: dict[str, Any], where: str) -> None:
    with pytest.raises(ValueError, match="don't meet the specifications of the schema") as refused:
        render(values)
    assert where in str(refused.value)


def test_helm_finds_nothing_to_complain_about(helm: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = helm("lint", "--strict", "--quiet", str(CHART))
    assert (done.returncode, done.stdout) == (0, "")


def test_the_policy_denies_the_environment_that_the_api_denies(render: Render) -> None:
    policy = render()["ValidatingAdmissionPolicy", "cotenant-tenant-pods"]
    (rule,) = [v["expression"] for v in policy["spec"]["variables"] if v["name"] == "deniedEnv"]
    assert f"r'{DENIED[0].names}|{DENIED[1].names}|^COTENANT_'" in rule


def test_default_runtime_clusters_demand_that_every_container_gives_gpus_away(render: Render) -> None:
    usual = render()["ValidatingAdmissionPolicy", "cotenant-tenant-pods"]["spec"]["validations"]
    strict = render({"admission": {"nvidiaIsDefaultRuntime": True}})[
        "ValidatingAdmissionPolicy", "cotenant-tenant-pods"
    ]
    (added,) = [rule for rule in strict["spec"]["validations"] if rule not in usual]
    assert "set env NVIDIA_VISIBLE_DEVICES=void in every container" in added["message"]


def test_names_and_ports_are_those_of_the_code(render: Render) -> None:
    objects = render()
    agent, operator = objects["DaemonSet", "cotenant-agent"], objects["Deployment", "cotenant-operator"]
    scraped = {"name": "metrics", "containerPort": names.METRICS_PORT}
    assert container_of(agent)["ports"] == [{"name": "http", "containerPort": names.AGENT_PORT}, scraped]
    asked = {"name": "query", "containerPort": names.QUERY_PORT}
    assert container_of(operator)["ports"] == [{"name": "http", "containerPort": Settings().port}, scraped, asked]
    assert objects["EndpointSlice", "cotenant-query-ipv4"]["ports"][0]["port"] == names.QUERY_PORT
    assert objects["APIService", f"{names.VERSION}.{names.QUERY_GROUP}"]["spec"]["service"]["name"] == SERVICE
    progress = objects["NetworkPolicy", "cotenant-operator"]["spec"]["egress"][-1]["ports"]
    assert progress == [{"protocol": "TCP", "port": names.PROGRESS_PORT}]
    assert objects["Lease", Settings().lease_name]["metadata"]["namespace"] == NAMESPACE
    own_node = objects["ValidatingAdmissionPolicy", "cotenant-agent-own-node"]["spec"]["matchConstraints"]
    assert own_node["resourceRules"][0]["apiGroups"] == [names.GROUP]
    metadata = json.dumps(objects["ValidatingAdmissionPolicy", "cotenant-managed-metadata"])
    assert f"'{names.LABEL_MANAGED_BY}'" in metadata
    assert f"== '{names.MANAGED_BY}'" in metadata
    selector = objects["ValidatingAdmissionPolicy", "cotenant-managed-pods"]["spec"]["matchConstraints"][
        "objectSelector"
    ]
    assert selector == {"matchLabels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}
    assert names.ANNOTATION_PLACEMENT.startswith(f"{names.GROUP}/")
    networks = json.dumps(objects["ValidatingAdmissionPolicy", "cotenant-tenant-networks"])
    of_all_pods = (names.LABEL_JOB, names.LABEL_JOB_UID, names.LABEL_ATTEMPT, names.LABEL_NODE_RANK, names.LABEL_QUEUE)
    assert ", ".join(f"'{label}'" for label in of_all_pods) in networks


def test_evictions_and_deletes_are_held_to_the_operators_longest_grace(render: Render) -> None:
    set_to_90 = {"operator": {"settings": {"max_grace_period_s": 90}}}
    for values, bound in (({}, Settings().max_grace_period_s), (set_to_90, 90)):
        objects = render(values)
        for name in ("cotenant-evictions", "cotenant-job-deletion"):
            assert f"variables.grace <= {bound} " in json.dumps(objects["ValidatingAdmissionPolicy", name])


def test_alerts_say_what_to_do(render: Render) -> None:
    """That they rest on metrics which are served is tested beside the dashboards."""
    (group,) = render({"metrics": {"monitors": True}})["PrometheusRule", "cotenant"]["spec"]["groups"]
    rules = {rule["alert"]: rule for rule in group["rules"]}
    assert {"CotenantAgentFailing", "CotenantGpuDisputed", "CotenantJobQuarantined", "CotenantObjectUnreadable"} <= set(
        rules
    )
    assert all(len(rule["annotations"]["description"]) > 80 and rule["for"] for rule in rules.values())
    assert "{{ $labels.stage }}" in rules["CotenantJobQuarantined"]["annotations"]["summary"]


@pytest.mark.parametrize("offered", [True, False])
def test_gpus_are_offered_by_claims_as_a_whole_or_not_at_all(render: Render, offered: bool) -> None:
    """The agent's flag, its folders and its user, the operator's setting, the DeviceClass: all of them, or none."""
    objects = render({"agent": {"dra": {"enabled": offered}}})
    pod = objects["DaemonSet", "cotenant-agent"]["spec"]["template"]["spec"]
    paths = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    sockets = {"/var/lib/kubelet/plugins/gpu.cotenant.dev", "/var/lib/kubelet/plugins_registry"}
    claims = env_of(objects["Deployment", "cotenant-operator"])["COTENANT_DEVICE_CLAIMS"]
    assert claims == ("counted" if offered else "ignored")
    assert [
        "--dra" in pod["containers"][0]["args"],
        sockets <= paths,
        pod["securityContext"].get("runAsUser") == 0,
        ("DeviceClass", "gpu.cotenant.dev") in objects,
        ("ValidatingAdmissionPolicy", "cotenant-agent-own-slices") in objects,
        ("ValidatingAdmissionPolicy", "cotenant-operator-resourceclaims") in objects,
    ] == [offered] * 6
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def listed_policies() -> dict[str, str]:
    """Name of each policy of the table in docs/security.md → in which namespaces it holds."""
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    rows = [
        line.split(" | ") for line in text.partition("## The policies in force")[2].splitlines() if "`cotenant-" in line
    ]
    named = [
        (name, row[-1].rstrip(" |"))
        for row in rows
        if len(row) == 3
        for name in re.findall(r"`(cotenant-[a-z-]+)`", row[0])
    ]
    assert len(named) == len(dict(named)), "no policy stands there twice"
    return dict(named)


def test_the_table_of_policies_is_what_is_in_force(render: Render) -> None:
    labels = {"matchLabels": {"cotenant.dev/tenant": "true"}}
    others = {"matchExpressions": [{"key": "cotenant.dev/tenant", "operator": "NotIn", "values": ["true"]}]}
    where = {json.dumps(None): "all", json.dumps(labels): "tenants'", json.dumps(others): "all but tenants'"}
    objects = render({"agent": {"dra": {"enabled": True}}})
    found = {}
    for (kind, name), binding in objects.items():
        if kind == "ValidatingAdmissionPolicyBinding":
            spec = objects["ValidatingAdmissionPolicy", name]["spec"]
            assert (binding["spec"]["validationActions"], spec["failurePolicy"]) == (["Deny"], "Fail")
            selected = binding["spec"].get("matchResources", {}).get("namespaceSelector")
            found[name] = where[json.dumps(selected)]
    assert found == listed_policies()
