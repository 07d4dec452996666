"""Which objects the chart renders, and which each switch adds or takes away."""

from typing import Any

import pytest

from tests.chart.rendering.workloads import Render

MANAGED = ("bindings", "contracts", "evictions", "job-deletion", "managed-metadata", "managed-objects", "managed-pods")
TENANT_POLICIES = {f"cotenant-{what}" for what in (*MANAGED, "job-makers", "job-moves", "job-sizes", "job-users")} | {
    f"cotenant-tenant-{what}" for what in ("disruption-budgets", "namespaces", "networks", "pods")
}
OPERATED = (
    "apiservices",
    "base-networkpolicies",
    "deletes",
    "endpointslices",
    "events",
    "gpunodes",
    "jobs",
    "leases",
    "localqueues",
    "made-jobs",
    "networkpolicies",
    "pods",
    "secret-deletes",
    "secrets",
    "services",
    "sessions",
    "sweeps",
)
OPERATOR_POLICIES = {
    "cotenant-localqueues",
    "cotenant-quota-approvals",
    "cotenant-quota-records",
    "cotenant-reserved-names",
    *(f"cotenant-operator-{what}" for what in OPERATED),
}
QUESTIONS: set[str | tuple[str, str]] = {
    "v1alpha1.query.cotenant.dev",
    "cotenant-query",
    "cotenant-operator-authentication",
    "cotenant-operator-apiservices",
    "cotenant-operator-endpointslices",
}
SERVED_PAGES = {(kind, "cotenant-dashboard-serving") for kind in ("Role", "RoleBinding", "Secret")}
PAGES = {(kind, "cotenant-dashboard") for kind in ("Deployment", "NetworkPolicy", "Service", "ServiceAccount")}


def test_by_default_these_objects_and_no_others(render: Render) -> None:
    assert sorted(render()) == [
        ("APIService", "v1alpha1.query.cotenant.dev"),
        ("ClusterRole", "cotenant-administrator"),
        ("ClusterRole", "cotenant-agent"),
        ("ClusterRole", "cotenant-decision-viewer"),
        ("ClusterRole", "cotenant-metrics-reader"),
        ("ClusterRole", "cotenant-operator"),
        ("ClusterRole", "cotenant-profile-viewer"),
        ("ClusterRole", "cotenant-queue-viewer"),
        ("ClusterRole", "cotenant-remote-jobs"),
        ("ClusterRole", "cotenant-remote-logs"),
        ("ClusterRole", "cotenant-tenant-edit"),
        ("ClusterRole", "cotenant-tenant-view"),
        ("ClusterRoleBinding", "cotenant-agent"),
        ("ClusterRoleBinding", "cotenant-operator"),
        ("DaemonSet", "cotenant-agent"),
        ("Deployment", "cotenant-operator"),
        ("FlowSchema", "cotenant-leader-election"),
        ("FlowSchema", "cotenant-operator"),
        ("NetworkPolicy", "cotenant-agent"),
        ("NetworkPolicy", "cotenant-operator"),
        ("PodDisruptionBudget", "cotenant-operator"),
        ("PriorityClass", "cotenant-workers"),
        ("ResourceQuota", "cotenant-critical-pods"),
        ("Role", "cotenant-metrics-serving"),
        ("Role", "cotenant-operator"),
        ("RoleBinding", "cotenant-metrics-serving"),
        ("RoleBinding", "cotenant-operator"),
        ("RoleBinding", "cotenant-operator-authentication"),
        ("Secret", "cotenant-metrics-serving"),
        ("Service", "cotenant-operator"),
        ("Service", "cotenant-query"),
        ("ServiceAccount", "cotenant-agent"),
        ("ServiceAccount", "cotenant-operator"),
        ("ValidatingAdmissionPolicy", "cotenant-agent-own-node"),
        ("ValidatingAdmissionPolicy", "cotenant-bindings"),
        ("ValidatingAdmissionPolicy", "cotenant-contracts"),
        ("ValidatingAdmissionPolicy", "cotenant-evictions"),
        ("ValidatingAdmissionPolicy", "cotenant-job-deletion"),
        ("ValidatingAdmissionPolicy", "cotenant-job-makers"),
        ("ValidatingAdmissionPolicy", "cotenant-job-moves"),
        ("ValidatingAdmissionPolicy", "cotenant-job-sizes"),
        ("ValidatingAdmissionPolicy", "cotenant-job-users"),
        ("ValidatingAdmissionPolicy", "cotenant-localqueues"),
        ("ValidatingAdmissionPolicy", "cotenant-managed-metadata"),
        ("ValidatingAdmissionPolicy", "cotenant-managed-objects"),
        ("ValidatingAdmissionPolicy", "cotenant-managed-pods"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-apiservices"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-base-networkpolicies"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-deletes"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-endpointslices"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-events"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-gpunodes"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-jobs"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-leases"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-localqueues"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-made-jobs"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-networkpolicies"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-pods"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-secret-deletes"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-secrets"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-services"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-sessions"),
        ("ValidatingAdmissionPolicy", "cotenant-operator-sweeps"),
        ("ValidatingAdmissionPolicy", "cotenant-quota-approvals"),
        ("ValidatingAdmissionPolicy", "cotenant-quota-records"),
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
        ("ValidatingAdmissionPolicyBinding", "cotenant-job-makers"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-job-moves"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-job-sizes"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-job-users"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-localqueues"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-managed-metadata"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-managed-objects"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-managed-pods"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-apiservices"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-base-networkpolicies"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-deletes"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-endpointslices"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-events"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-gpunodes"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-jobs"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-leases"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-localqueues"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-made-jobs"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-networkpolicies"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-pods"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-secret-deletes"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-secrets"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-services"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-sessions"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-operator-sweeps"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-quota-approvals"),
        ("ValidatingAdmissionPolicyBinding", "cotenant-quota-records"),
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
            {"cotenant-agent", "cotenant-agent-own-node", "cotenant-critical-pods"},
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
            {"profiles": {"examples": True}},
            set(),
            {("ClusterTrainingProfile", name) for name in ("small", "standard-4", "large-h100")},
            id="profiles to begin with",
        ),
        pytest.param(
            {"profiles": {"viewers": ["system:authenticated"]}},
            set(),
            {("ClusterRoleBinding", "cotenant-profile-viewer")},
            id="profiles for all to see",
        ),
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
        pytest.param({"metrics": {"secure": False}}, {"cotenant-metrics-serving"}, set(), id="metrics for everybody"),
        pytest.param(
            {"metrics": {"certificateSecret": "own"}}, {"cotenant-metrics-serving"}, set(), id="a certificate"
        ),
        pytest.param(
            {"metrics": {"readers": [{"name": "prometheus", "namespace": "monitoring"}]}},
            set(),
            {("ClusterRoleBinding", "cotenant-metrics-reader")},
            id="a reader",
        ),
        pytest.param({"query": {"enabled": False}}, QUESTIONS, set(), id="no questions"),
        pytest.param(
            {"query": {"certificateSecret": "own", "caBundle": "UEVN"}},
            set(),
            set(),
            id="a certificate of the questions' own",
        ),
        pytest.param(
            {"query": {"certManager": True}},
            set(),
            {("Issuer", "cotenant-query"), ("Certificate", "cotenant-query")},
            id="a certificate by cert-manager",
        ),
        pytest.param({"decisionLog": {"storage": "EmptyDir"}}, set(), set(), id="a log in an emptyDir"),
        pytest.param(
            {"decisionLog": {"storage": "PersistentVolumeClaim"}},
            set(),
            {("PersistentVolumeClaim", "cotenant-decision-log")},
            id="a log on a volume",
        ),
        pytest.param(
            {"decisionLog": {"storage": "PersistentVolumeClaim", "claimName": "own"}}, set(), set(), id="on one's own"
        ),
        pytest.param({"dashboard": {"enabled": True}}, set(), PAGES | SERVED_PAGES, id="pages"),
        pytest.param(
            {"dashboard": {"enabled": True, "certificateSecret": "own"}}, set(), PAGES, id="pages with a certificate"
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


NEVER_APPLIED = {"Endpoints", "EndpointSlice", "Lease"}
"""Kinds that GitOps tools leave out by default, because controllers make them."""


@pytest.mark.parametrize(
    "values",
    [{}, {"dashboard": {"enabled": True}, "metrics": {"monitors": True}}, {"agent": {"namespace": "gpu"}}],
    ids=["the defaults", "pages and monitors", "agents elsewhere"],
)
def test_rendering_twice_gives_the_same_and_no_kind_that_gitops_leaves_out(
    render: Render, values: dict[str, Any]
) -> None:
    objects = render(values)
    assert objects == render(values)
    assert not NEVER_APPLIED & {kind for kind, _ in objects}
    secrets = [one for (kind, _), one in objects.items() if kind == "Secret"]
    assert not [one for one in secrets if "data" in one or "stringData" in one]


def test_the_api_of_questions_listens_where_firewalls_of_managed_clusters_are_open(render: Render) -> None:
    port = render()["Service", "cotenant-query"]["spec"]["ports"][0]["targetPort"]
    assert port == 10250
    operator = {"hostNetwork": True, "settings": {"operator_cidrs": "10.0.0.0/16, fd00::/64"}}
    own = render({"query": {"port": 8444}, "operator": operator})
    spec = own["Deployment", "cotenant-operator"]["spec"]["template"]["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert own["Service", "cotenant-query"]["spec"]["ports"][0]["targetPort"] == 8444
    for what in ("cotenant-operator-networkpolicies", "cotenant-operator-base-networkpolicies"):
        (rule,) = [
            str(one["expression"])
            for one in own["ValidatingAdmissionPolicy", what]["spec"]["validations"]
            if "ingress" in one["expression"]
        ]
        assert [f"cidr == optional.of('{one}')" in rule for one in ("10.0.0.0/16", "fd00::/64")] == [True, True]
    with pytest.raises(ValueError, match="whose kubelet has 10250"):
        render({"operator": {"hostNetwork": True}})
    with pytest.raises(ValueError, match=r"operator\.settings\.operator_cidrs"):
        render({"query": {"port": 8444}, "operator": {"hostNetwork": True}})


def test_openshift_is_known_by_its_value_and_agents_get_a_constraint_of_their_own(render: Render) -> None:
    plain, openshift = render(), render({"openshift": {"enabled": True}})
    assert openshift.keys() - plain.keys() == {
        ("SecurityContextConstraints", "cotenant-agent"),
        ("Role", "cotenant-agent-scc"),
        ("RoleBinding", "cotenant-agent-scc"),
    }
    users = [
        next(one["value"] for one in container["env"] if one["name"] == "COTENANT_RUN_AS_USER")
        for objects in (plain, openshift)
        for container in objects["Deployment", "cotenant-operator"]["spec"]["template"]["spec"]["containers"]
    ]
    assert users == ["65532", ""]
    constraint = openshift["SecurityContextConstraints", "cotenant-agent"]
    assert (constraint["allowHostDirVolumePlugin"], constraint["allowPrivilegedContainer"]) == (True, False)


@pytest.mark.parametrize(("enabled", "verbs", "group"), [(False, [], 65532), (True, [["create"]], None)])
def test_on_openshift_the_operator_may_write_its_address_and_names_no_group(
    render: Render, enabled: bool, verbs: list[list[str]], group: int | None
) -> None:
    """Its API server refuses slices with the address of a pod to all others, and every group but the namespace's."""
    objects = render({"openshift": {"enabled": enabled}, "decisionLog": {"storage": "PersistentVolumeClaim"}})
    rules = objects["Role", "cotenant-operator"]["rules"]
    assert [rule["verbs"] for rule in rules if "endpointslices/restricted" in rule["resources"]] == verbs
    pod = objects["Deployment", "cotenant-operator"]["spec"]["template"]["spec"]
    assert pod["securityContext"].get("fsGroup") == group


def test_the_kubelet_makes_no_folder_below_a_root_that_may_be_read_only(render: Render) -> None:
    volumes = render()["DaemonSet", "cotenant-agent"]["spec"]["template"]["spec"]["volumes"]
    made = [one["hostPath"]["path"] for one in volumes if one.get("hostPath", {}).get("type") == "DirectoryOrCreate"]
    assert [path for path in made if not path.startswith(("/run/", "/var/"))] == []


def test_no_pod_of_the_chart_goes_to_a_node_of_another_system_than_linux(render: Render) -> None:
    values: dict[str, Any] = {
        "operator": {"nodeSelector": {"pool": "system"}},
        "dashboard": {"enabled": True},
        "agent": {"dra": {"enabled": True}, "mps": {"enabled": True}},
    }
    workloads = [one for (kind, _), one in render(values).items() if kind in {"Deployment", "DaemonSet"}]
    selectors = {one["metadata"]["name"]: one["spec"]["template"]["spec"]["nodeSelector"] for one in workloads}
    linux = {"kubernetes.io/os": "linux"}
    assert selectors == {
        "cotenant-operator": linux | {"pool": "system"},
        "cotenant-dashboard": linux,
        "cotenant-agent": linux,
        "cotenant-mps": linux,
    }


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param({}, [None, None], id="the runtime's own type"),
        pytest.param({"agent": {"seLinuxType": "spc_t"}}, ["spc_t", "spc_t"], id="a type of the administrator's"),
        pytest.param({"openshift": {"enabled": True}}, ["spc_t", "spc_t"], id="OpenShift"),
        pytest.param({"agent": {"seLinuxType": "spc_t", "simulate": True}}, [None], id="nothing of the host is used"),
    ],
)
def test_what_uses_the_host_may_do_so_under_selinux(
    render: Render, values: dict[str, Any], want: list[str | None]
) -> None:
    simulated = values.get("agent", {}).get("simulate", False)
    shared = {} if simulated else {"dra": {"enabled": True}, "mps": {"enabled": True}}
    objects = render(values | {"agent": values.get("agent", {}) | shared})
    pods = [one["spec"]["template"]["spec"] for (kind, _), one in sorted(objects.items()) if kind == "DaemonSet"]
    assert [pod["securityContext"].get("seLinuxOptions", {}).get("type") for pod in pods] == want


def test_agents_are_for_linux_and_their_rollout_is_the_administrators_to_set(render: Render) -> None:
    every_node = render({"agent": {"nodeSelector": {"kubernetes.io/os": "linux"}}})["DaemonSet", "cotenant-agent"]
    assert every_node["spec"]["template"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    values = {"agent": {"nodeSelector": {"gpu": "yes"}, "updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}}
    spec = render(values)["DaemonSet", "cotenant-agent"]["spec"]
    assert spec["template"]["spec"]["nodeSelector"] == {"gpu": "yes", "kubernetes.io/os": "linux"}
    assert spec["updateStrategy"] == {"type": "OnDelete"}
