"""How settings reach the operator, and which values the chart refuses."""

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.api.scalars import pod_metadata
from cotenant.cli.simulation import installation
from cotenant.controller.settings import Settings
from cotenant.decision_log.showback.prices import Price, PriceList
from tests.chart.rendering.workloads import (
    DEFAULTED,
    NAMESPACE,
    OF_A_MOUNTED_CERTIFICATE,
    OF_A_VOLUME,
    OF_PRICES,
    SET_BY_THE_CHART,
    Render,
    env_of,
)

CHART = Path(__file__).parents[3] / "charts" / "cotenant"
FIXED = {"identity", "lease_name", "port", "host", "metrics_port"}
"""Settings that the chart leaves at their defaults, because RBAC, probes, Services and the Lease rely on them."""


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
        pytest.param({}, "cotenant-workers", 1_000_000, id="the chart's"),
        pytest.param({"worker": {"priority": 5}}, "cotenant-workers-5", 5, id="the chart's, of another value"),
        pytest.param({"operator": {"settings": {"pod_priority_class": "mine"}}}, "mine", None, id="their own"),
        pytest.param({"worker": {"priority": None}}, None, None, id="the cluster's default"),
    ],
)
def test_worker_pods_have_one_priority_class_and_tenants_pods_are_bounded_by_the_charts(
    render: Render, values: dict[str, Any], priority_class: str | None, bounded: int | None
) -> None:
    """A class of another value has another name: Kubernetes lets nobody change the value of one."""
    rendered = render(values)
    assert env_of(rendered["Deployment", "cotenant-operator"]).get("COTENANT_POD_PRIORITY_CLASS") == priority_class
    policy = rendered["ValidatingAdmissionPolicy", "cotenant-tenant-pods"]
    rules = [rule["expression"] for rule in policy["spec"]["validations"]]
    assert any(f"object.spec.?priority.orValue(0) <= {bounded}" in rule for rule in rules) is (bounded is not None)
    made = {name: one["value"] for (kind, name), one in rendered.items() if kind == "PriorityClass"}
    assert made == ({} if bounded is None else {priority_class: bounded})


def test_the_operator_accepts_every_variable_of_the_chart(render: Render) -> None:
    environment = env_of(render()["Deployment", "cotenant-operator"])
    assert environment.keys() == set(SET_BY_THE_CHART.values()) | DEFAULTED
    settings = Settings.read({key: value for key, value in environment.items() if isinstance(value, str)})
    assert settings.toleration_list == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("networks", "refused"),
    [
        ("10.0.0.0/16, fd00::/64", ""),
        ("10.0.0.1,::ffff:10.0.0.0/104", ""),
        ("10.0.0.0/33", "10.0.0.0/33"),
        ("10.0.0.0/16,10.0.256.0/24", "10.0.256.0/24"),
        ("fd00::/129", "fd00::/129"),
        ("nodes", "nodes"),
    ],
)
@pytest.mark.parametrize("setting", ["dns_cidrs", "egress_cidrs", "operator_cidrs"])
def test_what_is_no_network_is_refused_before_the_installation(
    render: Render, setting: str, networks: str, refused: str
) -> None:
    values = {"operator": {"settings": {setting: networks}}}
    if not refused:
        assert env_of(render(values)["Deployment", "cotenant-operator"])[f"COTENANT_{setting.upper()}"] == networks
        return
    with pytest.raises(ValueError, match=re.escape(f"operator.settings.{setting}: {refused} is no network: write one")):
        render(values)


def test_marks_of_pods_reach_chart_and_operator_and_null_takes_one_off(render: Render) -> None:
    marks = {"podLabels": {"sidecar.istio.io/inject": None, "team": "ml"}, "worker": {"annotations": {"a/b": "c"}}}
    rendered = render(marks)
    workload = rendered["Deployment", "cotenant-operator"]
    labels, annotations = Settings.read(
        {name: value for name, value in env_of(workload).items() if isinstance(value, str)}
    ).labels_and_annotations
    of_nodes = {
        "karpenter.sh/do-not-disrupt",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "descheduler.alpha.kubernetes.io/prefer-no-eviction",
    }
    of_meshes = {key: value for key, value in pod_metadata.ANNOTATIONS.items() if key not in of_nodes}
    kept = {key: value for key, value in pod_metadata.LABELS.items() if key != "sidecar.istio.io/inject"}
    assert labels == kept | {"team": "ml"}
    assert annotations == pod_metadata.ANNOTATIONS | {"a/b": "c"}
    for made in (workload, rendered["DaemonSet", "cotenant-agent"]):
        metadata = made["spec"]["template"]["metadata"]
        assert labels.items() <= metadata["labels"].items()
        assert metadata["annotations"] == of_meshes
        assert "sidecar.istio.io/inject" not in metadata["labels"]


def test_the_chart_and_the_operator_have_the_same_marks_by_default(render: Render) -> None:
    environment = env_of(render()["Deployment", "cotenant-operator"])
    found = [json.loads(environment[name]) for name in ("COTENANT_POD_LABELS", "COTENANT_POD_ANNOTATIONS")]
    assert found == [pod_metadata.LABELS, pod_metadata.ANNOTATIONS]


@pytest.mark.parametrize(
    ("values", "quotas"),
    [
        ({}, {NAMESPACE: ["system-node-critical"]}),
        (
            {"agent": {"namespace": "agents"}, "operator": {"priorityClassName": "system-cluster-critical"}},
            {NAMESPACE: ["system-cluster-critical"], "agents": ["system-node-critical"]},
        ),
        (
            {"operator": {"priorityClassName": "system-cluster-critical"}},
            {NAMESPACE: ["system-cluster-critical", "system-node-critical"]},
        ),
        ({"agent": {"priorityClassName": "mine"}}, {}),
    ],
    ids=["the agents", "two namespaces", "both in one", "no class of the system"],
)
def test_a_quota_lets_pods_of_the_systems_classes_into_the_namespaces_that_have_them(
    helm: Callable[..., subprocess.CompletedProcess[str]], values: dict[str, Any], quotas: dict[str, list[str]]
) -> None:
    command = ("template", "release", str(CHART), "--namespace", NAMESPACE, "--values", "-")
    documents = [one for one in yaml.safe_load_all(helm(*command, stdin=yaml.safe_dump(values)).stdout) if one]
    found = {
        one["metadata"]["namespace"]: one["spec"]["scopeSelector"]["matchExpressions"][0]["values"]
        for one in documents
        if one["kind"] == "ResourceQuota"
    }
    assert found == quotas


def test_prices_reach_the_operator_as_they_were_written(render: Render) -> None:
    entry = {"gpuClass": "H100", "perGPUHour": "2.50", "until": "2027-01-01T00:00:00Z"}
    environment = env_of(render({"prices": {"currency": "EUR", "classes": [entry]}})["Deployment", "cotenant-operator"])
    assert Settings.read({"COTENANT_PRICES": environment["COTENANT_PRICES"]}).price_list == PriceList(
        "EUR", (Price(gpu_class="H100", micros=2_500_000, until=1_798_761_600),)
    )


def test_the_schema_lists_every_setting_that_is_not_the_charts_own() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    listed = schema["properties"]["operator"]["properties"]["settings"]["properties"]
    assert (
        listed.keys()
        == set(Settings.model_fields)
        - SET_BY_THE_CHART.keys()
        - OF_A_MOUNTED_CERTIFICATE.keys()
        - OF_A_VOLUME.keys()
        - OF_PRICES.keys()
        - FIXED
    )
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
    open_ended = {
        "operator.resources",
        "agent.resources",
        "agent.mps.resources",
        "dashboard.resources",
        "operator.settings",
        "agent.updateStrategy",
        "metrics.dashboardLabels",
        "podAnnotations",
        "podLabels",
        "worker.annotations",
    }
    inside = {key for key in values | schema if any(key.startswith(f"{name}.") for name in open_ended)}
    assert values - inside == schema - inside - {"enabled", "global"}


def test_values_of_an_older_release_are_refused_by_the_name_of_what_they_lack(render: Render) -> None:
    """`helm upgrade --reuse-values` hands on the defaults of before, and no template can do without a new one."""

    def lacking(schema: Mapping[str, Any], values: Mapping[str, Any], prefix: str = "") -> set[str]:
        found = set()
        for key, entry in schema.get("properties", {}).items():
            default, fixed = values.get(key), entry.get("additionalProperties") is False and "properties" in entry
            if isinstance(default, dict) and fixed:
                found |= lacking(entry, default, f"{prefix}{key}.")
            needed = fixed if isinstance(default, dict) else default is not None and not isinstance(default, list)
            if needed and "null" not in entry.get("type", ""):
                found |= {prefix + key} - {prefix + one for one in schema.get("required", ())}
        return found

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert lacking(json.loads((CHART / "values.schema.json").read_text()), values) == set()
    with pytest.raises(ValueError, match="missing property 'query'"):
        render({"query": None})


def test_a_parent_chart_may_switch_it_on_and_off(render: Render) -> None:
    assert render({"enabled": True, "global": {"imageRegistry": "example.com"}}) == render()


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
        ({"admission": {"schedulers": []}}, "/admission/schedulers"),
        ({"metrics": {"interval": 30}}, "/metrics/interval"),
        ({"query": {"certificateSecret": "own"}}, "/query/caBundle"),
        ({"dashboard": {"trustedProxies": ["everybody"]}}, "/dashboard/trustedProxies/0"),
        ({"dashboard": {"sessions": {"host": "https://sessions.example.com"}}}, "/dashboard/sessions/host"),
        ({"decisionLog": {"storage": "Disk"}}, "/decisionLog/storage"),
        ({"decisionLog": {"megabytes": 1}}, "/decisionLog/megabytes"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_its_path(render: Render, values: dict[str, Any], where: str) -> None:
    with pytest.raises(ValueError, match="don't meet the specifications of the schema") as refused:
        render(values)
    assert where in str(refused.value)


def test_helm_finds_nothing_to_complain_about(helm: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = helm("lint", "--strict", "--quiet", str(CHART))
    assert (done.returncode, done.stdout) == (0, "")
