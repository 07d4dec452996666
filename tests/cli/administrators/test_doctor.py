"""A cluster that is well has no findings; whatever is taken from it is found, with its fix."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from cotenant.cli.administrators import doctor
from cotenant.cli.administrators.health.checks import CHECKS, KINDS
from cotenant.cli.administrators.health.decision_log import FOLDER, decision_log
from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity
from cotenant.cli.administrators.health.gpu_classes import gpu_classes
from cotenant.cli.administrators.health.taints import TOLERATIONS, taints
from cotenant.cli.errors import EXIT_FORBIDDEN, EXIT_NOT_FOUND, UserError
from cotenant.cli.terminal.connection import Connection

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
Seen = dict[str, Any]
TENANT = {"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}


def named(name: str, *, component: str = "", namespace: str = "cotenant-system", **body: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/component": component}}
    return {"metadata": metadata} | body


def well() -> Seen:
    """What there is in a cluster in which everything works."""
    status = {
        "heartbeat": "2026-01-01T11:59:58Z", "toolkitVersion": "1.20.1", "gpus": [{"uuid": "GPU-a"}],
        "capabilities": {"paths": [{"path": "MemoryLimit", "available": True}]},
    }  # fmt: skip
    versions = [{"name": "v1beta1", "served": True}]
    crd = {"group": "cotenant.dev", "versions": versions}
    return {
        "version": {"major": "1", "minor": "36+"},
        "frontProxy": {},
        "nodes": {"items": [
            named("n1", status={"capacity": {"nvidia.com/gpu": "8"}}),
            named("n2", status={"capacity": {"nvidia.com/hostdev": "2"}}),  # network devices
        ]},
        "runtimeClasses": {"items": [named("nvidia")]},
        "namespaces": {"items": [{"metadata": {"name": "red", "labels": TENANT}}]},
        "crds": {"items": [{"metadata": {}, "spec": crd | {"names": {"plural": kind}}} for kind in KINDS]},
        "apiService": {"status": {"conditions": [{"type": "Available", "status": "True"}]}},
        "policies": {"items": [named("cotenant-tenant-pods"), named("cotenant-tenant-namespaces")]},
        "bindings": {"items": [
            named("b", spec={"policyName": "cotenant-tenant-pods"}),
            named("c", spec={"policyName": "cotenant-tenant-namespaces"}),
        ]},
        "deployments": {"items": [
            named("cotenant-operator", component="operator", spec={"replicas": 2}, status={"readyReplicas": 2})
        ]},
        "daemonSets": {"items": [
            named(
                "cotenant-agent", component="agent", status={"desiredNumberScheduled": 1, "currentNumberScheduled": 1}
            ),
            named("cotenant-mps", component="mps"),
        ]},
        "leases": {"items": [named("cotenant-operator", spec={"renewTime": "2026-01-01T11:59:59.000000Z"})]},
        "roleBindings": {"items": [named("cotenant-operator"), named("cotenant-agent")]},
        "gpuNodes": {"items": [named("n1", status=status)]},
        "queues": {"items": [named("red", spec={"namespaces": ["red"]})]},
        "queueTree": {"items": [{"metadata": {"name": "red"}, "status": {"holding": 1}}]},
        "refusedJobs": {"items": []},
        "refusedPods": {"items": []},
    }  # fmt: skip


def diagnosed(seen: Seen, *refused: str) -> list[Diagnosis]:
    cluster = SeenCluster(seen, list(refused), NOW)
    return [one for check in CHECKS for one in check(cluster)]


def test_a_cluster_that_is_well_has_no_findings() -> None:
    assert diagnosed(well()) == []


def test_every_kind_of_ours_is_looked_for() -> None:
    shipped = Path(__file__).parents[3] / "charts" / "cotenant" / "crds"
    assert sorted(KINDS) == sorted(one.stem for one in shipped.iterdir())


def test_lists_are_read_whole_because_the_api_server_sorts_them_by_namespace() -> None:
    assert [path for path in doctor.PATHS.values() if "limit=" in path] == []


def first(seen: Seen, name: str) -> dict[str, Any]:
    found: dict[str, Any] = seen[name]["items"][0]
    return found


def of_agent(**status: Any) -> Callable[[Seen], object]:
    return lambda seen: first(seen, "gpuNodes")["status"].update(status)


def stored(at: str, heartbeat: str) -> dict[str, Any]:
    """Of a GPUNode whose report the API server stored at this time."""
    status = first(well(), "gpuNodes")["status"] | {"heartbeat": heartbeat}
    entries = [{"subresource": "status", "time": at}]
    return {"metadata": {"name": "n1", "managedFields": entries}, "status": status}


def refusal(kind: str, namespace: str, name: str, message: str, at: str = "2026-01-01T11:58:00Z") -> dict[str, Any]:
    about = {"kind": kind, "name": name, "namespace": namespace}
    metadata = {"name": f"{name}.1", "namespace": namespace}
    return {"metadata": metadata, "involvedObject": about, "message": message, "lastTimestamp": at}


ROLLED = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}}}


def rolling(wanted: int, updated: int, away: int) -> dict[str, int]:
    """Status of a DaemonSet in a rolling update."""
    return {
        "desiredNumberScheduled": wanted, "currentNumberScheduled": wanted,
        "updatedNumberScheduled": updated, "numberUnavailable": away,
    }  # fmt: skip


@pytest.mark.parametrize("status", [rolling(8, 8, 1), rolling(8, 1, 0), rolling(11, 1, 1)])
def test_an_update_of_agents_that_goes_on_is_not_told(status: dict[str, int]) -> None:
    seen = well()
    first(seen, "daemonSets").update(status=status, spec=ROLLED)
    assert diagnosed(seen) == []


def test_a_queue_that_may_not_be_read_is_not_called_missing() -> None:
    seen = well()
    seen["queueTree"]["items"].append({"metadata": {"name": "old"}, "status": {"holding": 2}})
    del seen["queues"]
    assert diagnosed(seen) == []


def for_nodes(**labels: str) -> dict[str, Any]:
    """The spec of a DaemonSet whose nodes an administrator has chosen."""
    return {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"} | labels}}}}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda seen: seen["version"].update(minor="31"), ("Error", "Kubernetes", "1.32 is the oldest")),
        (lambda seen: seen["version"].update(minor="32"), ("Warning", "Kubernetes", "need 1.33")),
        (lambda seen: seen.pop("frontProxy"), ("Warning", "API aggregation", "not set up")),
        (lambda seen: seen["crds"]["items"].pop(), ("Error", "CRD trainingjobs.cotenant.dev", "is not there")),
        (
            lambda seen: first(seen, "crds")["spec"].update(versions=[]),
            ("Error", "CRD gpunodes.cotenant.dev", "does not serve v1beta1"),
        ),
        (
            lambda seen: first(seen, "crds").update(status={"storedVersions": ["v1alpha1", "v1beta1"]}),
            ("Note", "stored objects", "gpunodes: some may be stored"),
        ),
        (lambda seen: seen["deployments"].update(items=[]), ("Error", "operator", "no Deployment")),
        (lambda seen: first(seen, "deployments")["status"].clear(), ("Error", "operator", "no replica is ready")),
        (
            lambda seen: [
                first(seen, "deployments")["spec"].update(replicas=0),
                first(seen, "deployments")["status"].clear(),
            ],
            ("Error", "operator", "is scaled to 0 replicas: nothing is decided"),
        ),
        (
            lambda seen: first(seen, "deployments")["status"].update(readyReplicas=1),
            ("Warning", "operator", "1 of 2 replicas"),
        ),
        (
            lambda seen: seen["deployments"]["items"].append(first(seen, "deployments")),
            ("Error", "operator", "several of them"),
        ),
        (
            lambda seen: seen["roleBindings"]["items"].pop(),
            ("Error", "ClusterRoleBinding cotenant-agent", "do nothing"),
        ),
        (lambda seen: seen.pop("apiService"), ("Warning", "APIService query.cotenant.dev", "not answered")),
        (
            lambda seen: seen["apiService"]["status"]["conditions"][0].update(status="False", message="no endpoints"),
            ("Error", "APIService query.cotenant.dev", "no endpoints"),
        ),
        (
            lambda seen: seen["apiService"]["status"]["conditions"][0].update(
                status="False", message="no endpoints", lastTransitionTime="2026-01-01T11:59:52Z"
            ),
            ("Warning", "APIService query.cotenant.dev", "has not answered for 8 s: no endpoints"),
        ),
        (
            lambda seen: seen["apiService"]["status"]["conditions"][0].update(
                status="False", message="no endpoints", lastTransitionTime="2026-01-01T11:58:59Z"
            ),
            ("Error", "APIService query.cotenant.dev", "no endpoints"),
        ),
        (
            lambda seen: seen["runtimeClasses"].update(items=[]),
            ("Error", "RuntimeClass nvidia", "no pod can have GPUs"),
        ),
        (lambda seen: seen["gpuNodes"].update(items=[]), ("Error", "node n1", "has GPUs and no agent")),
        (
            lambda seen: seen["nodes"]["items"][1]["status"].update(capacity={"nvidia.com/mig-1g.10gb": "7"}),
            ("Error", "node n2", "has GPUs and no agent"),
        ),
        (
            lambda seen: [seen["gpuNodes"].update(items=[]), first(seen, "daemonSets").update(for_nodes(pool="x"))],
            ("Note", "nodes n1", "agent.nodeSelector leaves them out"),
        ),
        (
            lambda seen: [
                seen["gpuNodes"].update(items=[]),
                first(seen, "daemonSets").update(for_nodes(pool="x")),
                first(seen, "nodes")["metadata"]["labels"].update(pool="x"),
            ],
            ("Error", "node n1", "has GPUs and no agent"),
        ),
        (of_agent(heartbeat="2026-01-01T11:55:00Z"), ("Error", "node n1", "not been heard for 300 s")),
        (of_agent(heartbeat=None), ("Error", "node n1", "never been heard")),
        (of_agent(heartbeat="2026-01-01T12:01:00Z"), ("Warning", "node n1", "clock is 60 s ahead")),
        (
            lambda seen: first(seen, "gpuNodes").update(stored("2026-01-01T11:59:58Z", "2026-01-01T12:09:58Z")),
            ("Warning", "node n1", "clock is 600 s ahead"),
        ),
        (
            lambda seen: first(seen, "gpuNodes").update(stored("2026-01-01T11:59:58Z", "2026-01-01T11:49:58Z")),
            ("Warning", "node n1", "clock is 600 s behind"),
        ),
        (
            lambda seen: first(seen, "gpuNodes").update(stored("2026-01-01T11:50:00Z", "2026-01-01T12:00:00Z")),
            ("Error", "node n1", "not been heard for 600 s"),
        ),
        (of_agent(toolkitVersion="1.17.7-1"), ("Error", "node n1", "older than 1.17.8")),
        (of_agent(gpus=[]), ("Warning", "node n1", "finds no GPU")),
        (of_agent(simulated=True), ("Note", "node n1", "are simulated")),
        (
            of_agent(capabilities={"paths": [{"path": "MemoryLimit", "reason": "cgroup v1"}]}),
            ("Note", "node n1", "not hard: cgroup v1"),
        ),
        (
            of_agent(conditions=[{"type": "MemoryIsolationLowered", "status": "True", "message": "why"}]),
            ("Warning", "node n1", "MemoryIsolationLowered: why"),
        ),
        (
            lambda seen: seen["namespaces"]["items"].append(
                {"metadata": {"name": "cotenant-system", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
            ),
            ("Error", "namespace cotenant-system", "host paths"),
        ),
        (
            lambda seen: first(seen, "daemonSets")["status"].update(currentNumberScheduled=0),
            ("Error", "DaemonSet cotenant-agent", "0 of 1 nodes"),
        ),
        (lambda seen: seen["daemonSets"].update(items=[]), ("Error", "DaemonSet cotenant-agent", "is not there")),
        (lambda seen: seen["policies"].update(items=[]), ("Error", "admission policies", "behind the operator's back")),
        (
            lambda seen: first(seen, "bindings")["spec"].update(policyName="of-others"),
            ("Error", "policy cotenant-tenant-pods", "judges nobody"),
        ),
        (
            lambda seen: seen["bindings"]["items"].append(named("c", spec={"policyName": "cotenant-job-users"})),
            ("Error", "policy cotenant-job-users", "is not there, though it is bound"),
        ),
        (
            lambda seen: first(seen, "queues")["spec"].update(namespaces=["red", "blu"]),
            ("Note", "queue red", "names namespace blu, which is not there"),
        ),
        (
            lambda seen: first(seen, "queues").update(
                status={"conditions": [{"type": "Ready", "status": "False", "message": "its parent is missing"}]}
            ),
            ("Error", "queue red", "its parent is missing"),
        ),
        (
            lambda seen: first(seen, "namespaces")["metadata"].update(labels={}),
            ("Warning", "queue red", "namespace red"),
        ),
        (
            lambda seen: first(seen, "namespaces")["metadata"].update(labels={"cotenant.dev/tenant": "true"}),
            ("Warning", "namespace red", "may be privileged"),
        ),
        (
            lambda seen: seen["queueTree"]["items"].append(
                {"metadata": {"name": "old"}, "status": {"holding": 2, "waiting": 1}}
            ),
            ("Warning", "queue old", "is not there; the GPUs of 2 jobs of it count"),
        ),
        (
            lambda seen: seen["refusedJobs"]["items"].extend(
                [
                    refusal("TrainingJob", "red", "train", "no label cost-center"),
                    refusal("TrainingJob", "red", "late", "too old", "2026-01-01T11:00:00Z"),
                    refusal("Pod", "red", "other", "not of a job"),
                ]
            ),
            ("Warning", "namespace red", "pods of 1 job were refused: no label cost-center"),
        ),
        (
            lambda seen: (
                first(seen, "daemonSets")["status"].update(desiredNumberScheduled=2),
                seen["refusedPods"]["items"].extend(
                    [
                        refusal("DaemonSet", "cotenant-system", "cotenant-agent", "denied by policy"),
                        refusal("DaemonSet", "cotenant-system", "cotenant-agents", "of another"),
                    ]
                ),
            ),
            ("Error", "DaemonSet cotenant-agent", "has pods on 1 of 2 nodes: denied by policy"),
        ),
        (
            lambda seen: (
                first(seen, "deployments")["status"].clear(),
                seen["refusedPods"]["items"].append(
                    refusal("ReplicaSet", "cotenant-system", "cotenant-operator-6f7c", "exceeded quota")
                ),
            ),
            ("Error", "operator", "nothing is decided: exceeded quota"),
        ),
        (
            lambda seen: first(seen, "daemonSets").update(status=rolling(8, 1, 1), spec=ROLLED),
            ("Warning", "DaemonSet cotenant-agent", "7 of 8 pods are of an older release, and 1 cannot run"),
        ),
        (
            lambda seen: first(seen, "leases")["spec"].update(renewTime="2026-01-01T12:00:30.000000Z"),
            ("Warning", "operator", "30 s ahead"),
        ),
    ],
)
def test_what_is_wrong_is_found_with_its_fix(change: Callable[[Seen], object], found: tuple[str, str, str]) -> None:
    seen = copy.deepcopy(well())
    change(seen)
    (one,) = diagnosed(seen)
    assert (one.severity.value, one.subject, found[2] in one.message) == (*found[:2], True), one
    assert one.fix


NO_CLASS = 'pods "train-1-0" is forbidden: no PriorityClass with name {} was found'


@pytest.mark.parametrize(
    ("refused", "name", "fix"),
    [
        pytest.param(
            ("TrainingJob", "red", "train"), "cotenant-workers-5",
            "helm upgrade the release: it makes PriorityClass cotenant-workers-5 again",
            id="the chart makes the class of worker pods again",
        ),
        pytest.param(
            ("TrainingJob", "red", "train"), "batch",
            "operator.settings.pod_priority_class names PriorityClass batch: kubectl create priorityclass batch",
            id="an administrator who named a class of worker pods makes it",
        ),
        pytest.param(
            ("DaemonSet", "cotenant-system", "cotenant-agent"), "high",
            "agent.priorityClassName names PriorityClass high", id="the chart names the class of agents",
        ),
        pytest.param(
            ("ReplicaSet", "cotenant-system", "cotenant-operator-6f7c"), "high",
            "operator.priorityClassName names PriorityClass high", id="the chart names the class of the operator",
        ),
    ],
)  # fmt: skip
def test_who_names_a_missing_priority_class_is_told(refused: tuple[str, str, str], name: str, fix: str) -> None:
    seen = well()
    kind = refused[0]
    seen["refusedJobs" if kind == "TrainingJob" else "refusedPods"]["items"].append(
        refusal(*refused, NO_CLASS.format(name))
    )
    if kind == "ReplicaSet":
        first(seen, "deployments")["status"].clear()
    if kind == "DaemonSet":
        first(seen, "daemonSets")["status"].update(desiredNumberScheduled=2)
    (one,) = diagnosed(seen)
    assert one.fix.startswith(fix)


def test_before_the_installation_it_looks_at_what_the_cluster_brings() -> None:
    brings = {name: body for name, body in well().items() if name in {"version", "frontProxy", "nodes", "namespaces"}}
    assert [(one.severity, one.subject) for one in diagnosed(brings)] == [(Severity.ERROR, "RuntimeClass nvidia")]


class ApiOf:
    """What a caller may read of a cluster."""

    def __init__(self, seen: Seen, *forbidden: str) -> None:
        self.answers = {doctor.PATHS[name]: body for name, body in seen.items()}
        self.forbidden = {doctor.PATHS[name] for name in forbidden}

    def read(self, path: str) -> Any:
        if path in self.forbidden:
            raise UserError("User cannot list", EXIT_FORBIDDEN)
        if path not in self.answers:
            raise UserError("not found", EXIT_NOT_FOUND)
        return self.answers[path]


def test_what_may_not_be_read_is_named_and_not_taken_for_missing() -> None:
    cluster = doctor.look(cast("Connection", ApiOf(well(), "policies", "gpuNodes", "deployments", "apiService")))
    names = ["apiService", "policies", "deployments", "gpuNodes"]
    assert cluster.refused == [f"{name}: User cannot list" for name in names]
    late = SeenCluster(cluster.seen, cluster.refused, NOW)
    assert [one for check in CHECKS for one in check(late)] == []
    said = "Not looked at, because you may not read it: apiService, policies, deployments, gpuNodes"
    assert said in list(doctor.lines([], late))


def test_the_worst_is_printed_first_with_its_fix_below() -> None:
    found = [Diagnosis(Severity.NOTE, "a", "is so", "leave it"), Diagnosis(Severity.ERROR, "b", "is bad", "mend it")]
    assert list(doctor.lines(found, SeenCluster(well(), [], NOW))) == [
        "Error: b: is bad",
        "  mend it",
        "Note: a: is so",
        "  leave it",
        "Cotenant is installed; 1 error, 0 warnings, 1 note",
    ]


@pytest.mark.parametrize(
    ("seen", "refused", "last"),
    [
        (well(), [], "Cotenant is installed; nothing is wrong."),
        (well(), ["leases: no"], "Cotenant is installed; 1 of 19 things were not looked at,"
                                 " and nothing else is wrong."),
        ({}, [], "Cotenant is not installed here; nothing is wrong."),
        ({}, ["crds: no"], "You may not see whether Cotenant is installed; 1 of 19 things were not looked at,"
                           " and nothing else is wrong."),
    ],
)  # fmt: skip
def test_what_was_not_looked_at_is_not_called_well_and_not_called_missing(
    seen: Seen, refused: list[str], last: str
) -> None:
    assert len(doctor.PATHS) == 19
    assert list(doctor.lines([], SeenCluster(seen, refused, NOW)))[-1] == last


@pytest.mark.parametrize(
    ("tolerations", "taint", "said"),
    [
        pytest.param("[]", {"key": "team", "effect": "NoSchedule"}, ["team"], id="of nobody's"),
        pytest.param('[{"key": "team"}]', {"key": "team", "effect": "NoExecute"}, [], id="a tolerated one"),
        pytest.param('[{"key": "team"}]', {"key": "team", "value": "a", "effect": "NoExecute"}, ["team"], id="a value"),
        pytest.param('[{"operator": "Exists"}]', {"key": "team", "effect": "NoSchedule"}, [], id="all are tolerated"),
        pytest.param("[]", {"key": "team", "effect": "PreferNoSchedule"}, [], id="one that keeps nothing away"),
        pytest.param("[]", {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, [], id="a cordon"),
        pytest.param(None, {"key": "team", "effect": "NoSchedule"}, [], id="settings that are not seen"),
    ],
)
def test_a_taint_of_a_gpu_node_that_jobs_do_not_tolerate_is_found(
    tolerations: str | None, taint: dict[str, str], said: list[str]
) -> None:
    seen = well()
    first(seen, "nodes")["spec"] = {"taints": [taint]}
    env = [] if tolerations is None else [{"name": TOLERATIONS, "value": tolerations}]
    first(seen, "deployments")["spec"]["template"] = {"spec": {"containers": [{"env": env}]}}
    found = list(taints(SeenCluster(seen, [], NOW)))
    assert [
        one.fix.startswith(f"kubectl taint node n1 {key}-; or add") for one, key in zip(found, said, strict=True)
    ] == [True for _ in said]


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        pytest.param({"n1": ("A100", 40960), "n2": ("A100", 81920)}, ["n1", "n2"], id="40 and 80 GB"),
        pytest.param({"n1": ("A100", 81920), "n2": ("A100", 81559)}, [], id="one size, as two drivers tell it"),
        pytest.param({"n1": ("A100-40G", 40960), "n2": ("A100", 81920)}, [], id="two classes"),
        pytest.param({"n1": ("GB10", 0), "n2": ("GB10", 124000)}, [], id="memory that a driver does not tell"),
    ],
)
def test_a_class_with_gpus_of_unlike_memory_is_noted(classes: dict[str, tuple[str, int]], said: list[str]) -> None:
    nodes = [
        named(name, status={"gpus": [{"class": gpu_class, "memoryMiB": memory}]})
        for name, (gpu_class, memory) in classes.items()
    ]
    found = list(gpu_classes(SeenCluster({"gpuNodes": {"items": nodes}}, [], NOW)))
    assert [re.findall(r"node (n\d)", one.message) for one in found] == [said][: len(said)]
    assert all(one.fix.startswith("kubectl label node n1 cotenant.dev/gpu-class=A100-40G") for one in found)


@pytest.mark.parametrize(
    ("variables", "noted"), [(["OTHER"], 1), (["OTHER", FOLDER], 0)], ids=["in memory", "in a folder"]
)
def test_a_ledger_that_ends_with_its_leader_is_noted(variables: list[str], noted: int) -> None:
    seen = well()
    container = {"env": [{"name": one, "value": "x"} for one in variables]}
    seen["deployments"]["items"][0]["spec"]["template"] = {"spec": {"containers": [container]}}
    found = list(decision_log(SeenCluster(seen, [], NOW)))
    assert [one.severity for one in found] == [Severity.NOTE] * noted
