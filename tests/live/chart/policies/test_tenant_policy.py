"""The chart's policies on the real API server: every row of the table, every kind of container, every way in."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException

from cotenant.controller.manifests import worker_pod
from cotenant.controller.settings import Settings
from tests.controller.builders import attempt
from tests.controller.manifests.expected import REAL, SIMULATED
from tests.live.chart.conftest import OLDER

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

Document = dict[str, Any]
Change = Callable[[Document], None]
OPERATOR = "system:serviceaccount:cotenant-system:cotenant-operator"
TENANT = {"Impersonate-User": "alice", "Impersonate-Group": "system:masters"}
RUNTIME_CLASSES = ("nvidia", "nvidia-cdi")
TEAM, ORDINARY = "policy-team", "policy-ordinary"
GRANTED = "granted-3-0"
ABOVE_WORKERS = "above-workers"
SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str = "main", **fields: Any) -> Document:
    return {"name": name, "image": "ghcr.io/cotenant/tools", "securityContext": SECURITY} | fields


def make_pod(name: str = "p") -> Document:
    return {"metadata": {"name": name}, "spec": {"containers": [container()]}}


def env(name: str, value: str | None = "0") -> list[Document]:
    source = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}} if value is None else {"value": value}
    return [{"name": "HARMLESS", "value": "1"}, {"name": name} | source]


def with_spec(**fields: Any) -> Change:
    return lambda pod: pod["spec"].update(fields)


def with_metadata(**fields: Any) -> Change:
    return lambda pod: pod["metadata"].update(fields)


def with_container(**fields: Any) -> Change:
    return lambda pod: pod["spec"]["containers"][0].update(fields)


def with_init_container(**fields: Any) -> Change:
    return lambda pod: pod["spec"].update(initContainers=[container("init", **fields)])


class Server:
    """Creates pods as different users. Every request is a dry run, except those that make pod templates."""

    def __init__(self, cluster: "Cluster") -> None:
        client = kubernetes.config.new_client_from_config(str(cluster.kubeconfig))
        self.core = kubernetes.client.CoreV1Api(client)
        self.storage = client

    def create_job(self, name: str) -> str:
        """Its uid."""
        spec = {"queue": "none", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}}
        metadata = {"name": name, "annotations": {"cotenant.dev/user": "kubernetes-admin"}}
        job = {"apiVersion": "cotenant.dev/v1beta1", "kind": "TrainingJob", "metadata": metadata, "spec": spec}
        create = kubernetes.client.CustomObjectsApi(self.storage).create_namespaced_custom_object
        return str(create("cotenant.dev", "v1beta1", TEAM, "trainingjobs", job)["metadata"]["uid"])

    def create(self, pod: Document, *, namespace: str = TEAM, user: Mapping[str, str] = TENANT) -> str:
        """Empty when it was allowed, else what the server said."""
        return said(lambda: self.core.create_namespaced_pod(namespace, pod, dry_run="All", _headers=dict(user)))

    def update(self, name: str, change: Document, *, user: Mapping[str, str] = TENANT) -> str:
        return said(lambda: self.core.patch_namespaced_pod(name, TEAM, change, dry_run="All", _headers=dict(user)))

    def debug(self, name: str, **fields: Any) -> str:
        body = {"spec": {"ephemeralContainers": [container("debug", **fields)]}}
        patch = self.core.patch_namespaced_pod_ephemeralcontainers
        return said(lambda: patch(name, TEAM, body, dry_run="All", _headers=TENANT))


def granted_pod(uid: str) -> Document:
    """A pod as the operator makes it, of the job `granted`."""
    return worker_pod.pod(attempt(job="granted", uid=uid, namespace=TEAM), 0, Settings(), SIMULATED).pod


def said(call: Callable[[], object]) -> str:
    try:
        call()
    except ApiException as error:
        return str(error.body)
    return ""


@pytest.fixture(scope="module")
def server(policies: "Cluster") -> Iterator[Server]:
    server = Server(policies)
    server.core.create_namespace({"metadata": {"name": ORDINARY}})
    labels = {"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
    server.core.create_namespace({"metadata": {"name": TEAM, "labels": labels}})
    server.core.create_namespaced_pod(TEAM, make_pod("plain"))
    granted = granted_pod(server.create_job("granted"))
    server.core.create_namespaced_pod(TEAM, granted, _headers={"Impersonate-User": OPERATOR})
    classes = kubernetes.client.NodeV1Api(server.storage)
    for name in RUNTIME_CLASSES:  # else the server's own check of the name comes first
        classes.create_runtime_class({"metadata": {"name": name}, "handler": "nvidia"})
    priorities = kubernetes.client.SchedulingV1Api(server.storage)
    priorities.create_priority_class({"metadata": {"name": ABOVE_WORKERS}, "value": 1_000_001})
    yield server
    priorities.delete_priority_class(ABOVE_WORKERS)
    for name in RUNTIME_CLASSES:
        classes.delete_runtime_class(name)
    for namespace in (TEAM, ORDINARY):
        server.core.delete_namespace(namespace)


DENIED_ENV = [
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_MIG_CONFIG_DEVICES",
    "NVIDIA_IMEX_CHANNELS",
    "NVIDIA_GDS",
    "NVIDIA_MOFED",
    "NVIDIA_GDRCOPY",
    "NVIDIA_NVSWITCH",
    "NVIDIA_DISABLE_REQUIRE",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MEMORY_LIMIT_0",
    "CUDA_DEVICE_SM_LIMIT",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_DISABLE_CONTROL",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "LD_PRELOAD",
    "LD_AUDIT",
    "COTENANT_CONTRACT",
]


@pytest.mark.parametrize("name", DENIED_ENV)
@pytest.mark.parametrize("kind", ["container", "init container", "ephemeral container"])
def test_an_environment_that_reaches_for_gpus_is_denied(server: Server, kind: str, name: str) -> None:
    if kind == "ephemeral container":
        answer = server.debug("plain", env=env(name))
    else:
        pod = make_pod()
        (with_container if kind == "container" else with_init_container)(env=env(name))(pod)
        answer = server.create(pod)
    assert f"a tenant may not set {name}: which GPUs a container sees is decided by the placement" in answer


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        pytest.param(env("NVIDIA_VISIBLE_DEVICES", "void"), True, id="void"),
        pytest.param(env("NVIDIA_VISIBLE_DEVICES", "none"), True, id="none"),
        pytest.param(env("NVIDIA_VISIBLE_DEVICES", "all"), False, id="all"),
        pytest.param(env("NVIDIA_VISIBLE_DEVICES", ""), False, id="empty"),
        pytest.param(env("NVIDIA_VISIBLE_DEVICES", None), False, id="from somewhere else"),
        pytest.param(
            env("NVIDIA_VISIBLE_DEVICES", "void") + env("NVIDIA_VISIBLE_DEVICES", "all")[1:], False, id="void, then all"
        ),
    ],
)
def test_only_a_value_that_gives_gpus_away_may_be_set(server: Server, entries: list[Document], allowed: bool) -> None:
    pod = make_pod()
    with_container(env=entries)(pod)
    assert (server.create(pod) == "") is allowed


GPU_REQUEST = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
DENIED_ON_CREATE = [
    pytest.param(with_spec(runtimeClassName="nvidia"), "spec.runtimeClassName nvidia brings GPUs", id="runtime class"),
    pytest.param(with_spec(runtimeClassName="nvidia-cdi"), "runtimeClassName nvidia-cdi brings GPUs", id="its sibling"),
    pytest.param(with_container(**GPU_REQUEST), "may not request nvidia.com/gpu", id="a GPU"),
    pytest.param(
        with_init_container(**GPU_REQUEST), "may not request nvidia.com/gpu", id="a GPU for an init container"
    ),
    pytest.param(
        with_container(resources={"limits": {"nvidia.com/mig-1g.10gb": "1"}}),
        "may not request nvidia.com/mig-1g.10gb",
        id="a MIG slice",
    ),
    pytest.param(
        with_container(resources={"limits": {"gpu.cotenant.dev/slot-3": "1"}}),
        "may not request gpu.cotenant.dev/slot-3",
        id="a slot of ours",
    ),
    pytest.param(
        with_container(resources={"limits": {"amd.com/gpu": "1"}}),
        "may not request amd.com/gpu",
        id="another maker's GPU",
    ),
    pytest.param(
        with_spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "any"}]),
        "spec.resourceClaims may hold GPUs behind the quota",
        id="a resource claim",
    ),
    *[
        pytest.param(with_metadata(annotations={key: "x"}), f"the annotation {key}: it hands out GPUs", id=key)
        for key in (
            "nvidia.cdi.k8s.io/container.main",
            "cdi.k8s.io/gpu",
            "hami.io/vgpu-devices-to-allocate",
            "run.ai/reserve_for_gpu_index",
            "gpu-fraction",
            "gpu-memory",
            "devices.crio.io",
            "io.kubernetes.cri-o.Devices",
            "nvidia.com/use-gputype",
        )
    ],
    pytest.param(with_spec(nodeName="gpu-1"), "spec.nodeName passes the scheduler by", id="a node by name"),
    pytest.param(with_spec(schedulerName="mine"), "spec.schedulerName may only be default-scheduler", id="a scheduler"),
    pytest.param(
        with_spec(priorityClassName="system-node-critical"), "the system priority classes", id="a system priority"
    ),
    pytest.param(
        with_spec(priorityClassName=ABOVE_WORKERS),
        f"spec.priorityClassName {ABOVE_WORKERS} has priority 1000001 and would push jobs off their nodes; use one of "
        "at most 1000000",
        id="a priority above that of worker pods",
    ),
    pytest.param(
        with_spec(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]),
        "may not tolerate nvidia.com/gpu or every taint",
        id="the GPU taint",
    ),
    pytest.param(with_spec(tolerations=[{"operator": "Exists"}]), "may not tolerate", id="every taint"),
]


@pytest.mark.parametrize(("change", "says"), DENIED_ON_CREATE)
def test_a_pod_that_reaches_for_gpus_is_denied(
    server: Server, change: Change, says: str, request: pytest.FixtureRequest
) -> None:
    pod = make_pod()
    change(pod)
    if "resourceClaims" in pod["spec"] and request.config.getoption("--oldest"):
        pytest.skip("Kubernetes 1.32 drops the field: dynamic resource allocation is off there")
    assert says in server.create(pod)


@pytest.mark.parametrize(("change", "says"), DENIED_ON_CREATE)
def test_the_same_pod_is_judged_only_in_namespaces_of_tenants(server: Server, change: Change, says: str) -> None:
    pod = make_pod()
    change(pod)
    assert "ValidatingAdmissionPolicy" not in server.create(pod, namespace=ORDINARY)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pod: None, id="nothing special"),
        pytest.param(with_container(env=env("PYTHONPATH"), resources={"limits": {"cpu": "1"}}), id="CPU and variables"),
        pytest.param(with_container(envFrom=[{"configMapRef": {"name": "settings"}}]), id="variables from a ConfigMap"),
        pytest.param(with_init_container(env=env("A")), id="an init container"),
        pytest.param(with_metadata(labels={"app.kubernetes.io/managed-by": "Helm"}), id="somebody else's label"),
        pytest.param(with_metadata(annotations={"prometheus.io/scrape": "true"}), id="an annotation"),
        pytest.param(with_spec(nodeSelector={"zone": "a"}), id="a node selector"),
        pytest.param(with_spec(tolerations=[{"key": "spot", "operator": "Exists"}]), id="another toleration"),
        pytest.param(with_spec(schedulerName="default-scheduler"), id="the scheduler by its name"),
        pytest.param(with_spec(schedulerName="gke.io/optimize-utilization-scheduler"), id="GKE's scheduler"),
        pytest.param(with_spec(priorityClassName="cotenant-workers"), id="the priority of worker pods"),
    ],
)
def test_ordinary_pods_of_a_tenant_are_let_through(server: Server, change: Change) -> None:
    pod = make_pod()
    change(pod)
    assert server.create(pod) == ""


def test_the_operator_may_do_all_of_it(server: Server) -> None:
    pod = worker_pod.pod(attempt(namespace=TEAM), 0, Settings(), REAL).pod
    assert {"NVIDIA_VISIBLE_DEVICES"} <= {entry["name"] for entry in pod["spec"]["containers"][0]["env"]}
    assert server.create(pod, user={"Impersonate-User": OPERATOR}) == ""


def test_a_namesake_of_the_operator_in_another_namespace_may_not(server: Server) -> None:
    pod = make_pod()
    with_spec(nodeName="gpu-1")(pod)
    namesake = {
        "Impersonate-User": f"system:serviceaccount:{TEAM}:cotenant-operator",
        "Impersonate-Group": "system:masters",
    }
    assert "passes the scheduler by" in server.create(pod, user=namesake)


UPDATES = [
    pytest.param("plain", {"metadata": {"annotations": {"nvidia.cdi.k8s.io/pod": "x"}}}, "annotation", id="add, ours"),
    pytest.param("plain", {"metadata": {"annotations": {"cotenant.dev/placement": "{}"}}}, "annotation", id="forge"),
    pytest.param("plain", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "cotenant"}}}, "label", id="join"),
    pytest.param(GRANTED, {"metadata": {"annotations": {"cotenant.dev/placement": "x"}}}, "annotation", id="change"),
    pytest.param(GRANTED, {"metadata": {"annotations": {"cotenant.dev/placement": None}}}, "annotation", id="remove"),
    pytest.param(GRANTED, {"metadata": {"labels": {"cotenant.dev/job": "b"}}}, "label", id="another job"),
    pytest.param(GRANTED, {"metadata": {"labels": {"cotenant.dev/job": None}}}, "label", id="no job"),
    pytest.param(GRANTED, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}, "label", id="leave"),
    pytest.param("plain", {"metadata": {"annotations": {"note": "x"}, "labels": {"a": "b"}}}, "", id="a note"),
    pytest.param(GRANTED, {"metadata": {"annotations": {"note": "x"}, "labels": {"a": "b"}}}, "", id="a note on ours"),
]


@pytest.mark.parametrize(("name", "change", "word"), UPDATES)
def test_metadata_of_grants_cannot_be_changed_later(server: Server, name: str, change: Document, word: str) -> None:
    answer = server.update(name, change)
    assert (f"may not set, change or remove the {word} " in answer) if word else answer == ""


def test_a_toleration_of_gpu_nodes_cannot_be_added_later(server: Server) -> None:
    pod = server.storage.sanitize_for_serialization(server.core.read_namespaced_pod("plain", TEAM))
    tolerations = [*copy.deepcopy(pod["spec"].get("tolerations", [])), {"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert "may not tolerate nvidia.com/gpu" in server.update("plain", {"spec": {"tolerations": tolerations}})


@pytest.mark.parametrize(("name", "says"), [("plain", ""), (GRANTED, "an ephemeral container would see the GPUs")])
def test_an_ephemeral_container_is_denied_where_there_are_gpus(server: Server, name: str, says: str) -> None:
    answer = server.debug(name)
    assert (says in answer) if says else answer == ""


@pytest.mark.parametrize(
    ("labels", "allowed"),
    [
        ({"cotenant.dev/tenant": "true"}, False),
        ({"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "baseline"}, False),
        ({"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}, True),
        ({"cotenant.dev/tenant": "false"}, True),
        ({}, True),
    ],
)
def test_a_tenants_namespace_must_enforce_the_restricted_profile(
    server: Server, labels: dict[str, str], allowed: bool
) -> None:
    body = {"metadata": {"name": "policy-new", "labels": labels}}
    answer = said(lambda: server.core.create_namespace(body, dry_run="All"))
    assert (
        answer == "" if allowed else "must also carry the label pod-security.kubernetes.io/enforce=restricted" in answer
    )


@pytest.mark.parametrize(
    ("labels", "allowed"),
    [
        ({"team": "a"}, True),
        ({"cotenant.dev/tenant": None}, True),
        ({"pod-security.kubernetes.io/enforce": "restricted"}, True),
        ({"pod-security.kubernetes.io/enforce": "baseline"}, False),
    ],
)
def test_a_tenants_namespace_from_before_can_be_edited_for_the_better(
    server: Server, labels: dict[str, str | None], allowed: bool
) -> None:
    change = {"metadata": {"labels": labels, "annotations": {"openshift.io/sa.scc.mcs": "s0:c26,c5"}}}
    answer = said(lambda: server.core.patch_namespace(OLDER, change, dry_run="All"))
    assert answer == "" if allowed else "give both labels in one edit" in answer


def test_a_tenants_namespace_cannot_drop_the_profile_later(server: Server) -> None:
    change = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}}
    assert "must also carry" in said(lambda: server.core.patch_namespace(TEAM, change, dry_run="All"))
