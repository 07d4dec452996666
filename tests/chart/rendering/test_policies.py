"""What policies and alerts of the chart have in common with the code and with the documentation."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cotenant import names
from cotenant.api.resources.job_spec.reserved_env import DENIED
from cotenant.api.resources.trainingjobs import TrainingJobSpec
from cotenant.controller.query_api.endpoint import SERVICE
from cotenant.controller.settings import Settings
from tests.chart.rendering.workloads import Render, container_of


def test_the_policy_denies_the_environment_that_the_api_denies(render: Render) -> None:
    policy = render()["ValidatingAdmissionPolicy", "cotenant-tenant-pods"]
    (rule,) = [v["expression"] for v in policy["spec"]["variables"] if v["name"] == "deniedEnv"]
    assert f"r'{DENIED[0].names}|{DENIED[1].names}|^COTENANT_'" in rule


def test_no_policy_on_our_kinds_is_passed_by_with_another_version(render: Render) -> None:
    kinds = {"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}
    judging = [one for (kind, _), one in render().items() if kind in kinds]
    rules = [
        (one["metadata"]["name"], rule, one["spec"]["matchConstraints"].get("matchPolicy", "Equivalent"))
        for one in judging
        for rule in one["spec"]["matchConstraints"]["resourceRules"]
        if names.GROUP in rule["apiGroups"]
    ]
    assert len(rules) > 10
    assert [name for name, rule, match in rules if (rule["apiVersions"], match) != (["*"], "Equivalent")] == []
    assert [one["metadata"]["name"] for one in judging if f"{names.GROUP}/v1" in json.dumps(one)] == []


def test_the_policy_on_jobs_that_the_operator_made_holds_every_field_of_their_spec_but_suspend(render: Render) -> None:
    """One that it forgets could be changed with a stolen token of the operator's."""
    rules = render()["ValidatingAdmissionPolicy", "cotenant-operator-made-jobs"]["spec"]["validations"]
    (held,) = [rule["expression"] for rule in rules if "changes suspend alone" in rule.get("message", "")]
    fields = {str(field.alias) for field in TrainingJobSpec.model_fields.values()} - {"suspend"}
    assert {name for name in fields if f"object.spec.?{name} == oldObject.spec.?{name}" not in held} == set()


@pytest.mark.parametrize("policy", ["cotenant-operator-pods", "cotenant-tenant-pods"])
def test_pods_may_have_the_scheduler_that_a_platform_gives_every_pod(render: Render, policy: str) -> None:
    """A webhook of GKE's or Gardener's sets it, from which nobody can exempt a pod."""
    usual = '["default-scheduler","gke.io/optimize-utilization-scheduler","bin-packing-scheduler"]'
    for values, listed in (({}, usual), ({"admission": {"schedulers": ["mine"]}}, '["mine"]')):
        rules = render(values)["ValidatingAdmissionPolicy", policy]["spec"]["validations"]
        (bound,) = [rule["expression"] for rule in rules if "schedulerName" in rule["expression"]]
        assert f"object.spec.?schedulerName.orValue('default-scheduler') in {listed}" in bound


def test_a_network_plugin_that_may_update_pods_and_not_patch_them_may_note_addresses(render: Render) -> None:
    """The role of Multus has no `patch`, and a pod on which it cannot write its note gets no sandbox."""
    policy = render()["ValidatingAdmissionPolicy", "cotenant-managed-pods"]["spec"]
    (rule,) = [one["expression"] for one in policy["variables"] if one["name"] == "byClusterComponent"]
    pods = "authorizer.group('').resource('pods')"
    for asked in (pods, f"{pods}.subresource('status')"):
        assert f"{asked}.check('patch').allowed() || {asked}.check('update').allowed()" in " ".join(rule.split())


def test_a_network_plugin_may_put_its_finalizer_on_network_policies(render: Render) -> None:
    """The controller of EKS enforces a NetworkPolicy only once its finalizer is on it."""
    policy = render()["ValidatingAdmissionPolicy", "cotenant-managed-objects"]["spec"]
    (note,) = [one["expression"] for one in policy["variables"] if one["name"] == "isNoteOfClusterComponent"]
    assert "dyn(object).?spec == dyn(oldObject).?spec" in note
    assert "part in ['metadata.annotations', 'metadata.finalizers']" in note
    assert "resource('networkpolicies').check('patch')" in note
    (edits, _) = [rule["expression"] for rule in policy["validations"]]
    assert edits.endswith("|| variables.isUnchanged || variables.isNoteOfClusterComponent")


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
    assert objects["Service", "cotenant-query"]["spec"]["ports"][0]["targetPort"] == names.QUERY_PORT
    assert objects["APIService", f"{names.QUERY_VERSION}.{names.QUERY_GROUP}"]["spec"]["service"]["name"] == SERVICE
    progress = objects["NetworkPolicy", "cotenant-operator"]["spec"]["egress"][-1]["ports"]
    assert progress == [{"protocol": "TCP", "port": names.PROGRESS_PORT}]
    leases = objects["Role", "cotenant-operator"]["rules"][0]
    assert (leases["resources"], leases["resourceNames"]) == (["leases"], [Settings().lease_name])
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


def listed_policies() -> dict[str, str]:
    """Name of each policy of the table in docs/security.md → in which namespaces it holds."""
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
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
    objects = render({"agent": {"dra": {"enabled": True}, "devicePlugin": {"enabled": True}}})
    found = {}
    for (kind, name), binding in objects.items():
        if kind == "ValidatingAdmissionPolicyBinding":
            spec = objects["ValidatingAdmissionPolicy", name]["spec"]
            assert (binding["spec"]["validationActions"], spec["failurePolicy"]) == (["Deny"], "Fail")
            selected = binding["spec"].get("matchResources", {}).get("namespaceSelector")
            found[name] = where[json.dumps(selected)]
    assert found == listed_policies()


def test_the_operator_may_ask_for_other_devices_only_where_there_are_agents_for_them(render: Render) -> None:
    kind = "ValidatingAdmissionPolicy"

    def rules(values: dict[str, Any]) -> str:
        policy = render(values)[kind, "cotenant-operator-pods"]
        return str([one["expression"] for one in policy["spec"]["validations"]])

    assert "amd.com/gpu" not in rules({})
    assert "amd.com/gpu" in rules({"agent": {"otherDevices": {"enabled": True, "nodeSelector": {"maker": "amd"}}}})
    tenants = render()[kind, "cotenant-tenant-pods"]["spec"]["variables"]
    assert "google.com/tpu" in str(tenants)
