"""A stolen token of the operator makes what the operator makes and nothing else, on the real API server.

The documents are those that the operator's own builders make; each attack changes one of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest

from cotenant.controller.manifests import server_pod, worker_pod
from cotenant.controller.manifests.side_objects import base_network_policy, network_policy, service, token_secret
from tests.controller.builders import UID, attempt
from tests.controller.manifests.expected import LIMITED, REAL, SIMULATED, served
from tests.live.chart.conftest import wait_until_in_force
from tests.live.chart.policies.stolen_token import (
    JOBS,
    MERGE,
    NODES,
    OPERATOR,
    ORDINARY,
    RESTORER,
    SETTINGS,
    TEAM,
    Change,
    Document,
    Server,
    said,
    with_container,
    with_limit,
    with_metadata,
    with_pod_security,
    with_security,
    with_spec,
    with_volume,
)

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

NODES_NETWORK = "10.0.0.0/16"
"""Where an operator is that has the network of its node."""
TENANT = {"Impersonate-User": "alice", "Impersonate-Group": "system:masters"}


@pytest.fixture(scope="module")
def server(api_server: Cluster, install: Callable[..., Any]) -> Iterator[Server]:
    """Tenant namespaces need not be restricted here, so that nobody but the policies under test refuses."""
    values = {
        "operator": {"replicas": 1, "settings": {"operator_cidrs": NODES_NETWORK}},
        "agent": {"simulate": True},
        "admission": {"requireRestricted": False, "exemptUsers": ["restorer"]},
    }
    with install(api_server, values, wait=False):
        server = Server(api_server)
        server.core.create_namespace({"metadata": {"name": TEAM, "labels": {"cotenant.dev/tenant": "true"}}})
        server.core.create_namespace({"metadata": {"name": ORDINARY}})
        server.core.create_namespaced_service_account(TEAM, {"metadata": {"name": "builder"}})
        for name in ("nvidia", "kata"):
            server.classes.create_runtime_class({"metadata": {"name": name}, "handler": name})
        node = {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "metadata": {"name": "stolen"}}
        server.custom.create_cluster_custom_object(*NODES, node)
        wait_until_in_force(api_server)
        yield server
        server.custom.delete_cluster_custom_object(*NODES, "stolen")
        for name in ("nvidia", "kata"):
            server.classes.delete_runtime_class(name)
        for namespace in (TEAM, ORDINARY):
            server.core.delete_namespace(namespace)


def worker() -> Document:
    return worker_pod.pod(attempt(), 0, SETTINGS, SIMULATED).pod


MADE: dict[str, Callable[[], Document]] = {
    "a worker pod": worker,
    "a worker pod with real GPUs": lambda: worker_pod.pod(attempt(), 1, SETTINGS, REAL).pod,
    "a worker pod with a limit of the driver": lambda: worker_pod.pod(attempt(), 0, SETTINGS, LIMITED).pod,
    "the tenant's volumes": lambda: worker_pod.pod(served(), 0, SETTINGS, REAL).pod,
    "a parameter server": lambda: server_pod.pod(served(), 1, SETTINGS),
    "a token": lambda: token_secret(attempt(), "t"),
    "a Service": lambda: service(attempt()),
    "a NetworkPolicy": lambda: network_policy(attempt(), SETTINGS),
    "a NetworkPolicy with networks": lambda: network_policy(
        attempt(), SETTINGS.model_copy(update={"egress_cidrs": "10.0.0.0/8", "dns_namespace": ""})
    ),
    "a NetworkPolicy for a node's network": lambda: network_policy(
        attempt(), SETTINGS.model_copy(update={"operator_cidrs": NODES_NETWORK})
    ),
    "a base NetworkPolicy": lambda: base_network_policy(TEAM, SETTINGS),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_what_the_operator_makes_is_taken(server: Server, made: Callable[[], Document]) -> None:
    assert server.create(made()) == ""


BY_A_WEBHOOK = {
    "labels": {"cost-center": "r-and-d"},
    "annotations": {"policies.kyverno.io/last-applied-patches": "labels.add-labels.kyverno.io: added"},
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_labels_and_annotations_that_a_webhook_gives_every_object_are_no_attack(
    server: Server, made: Callable[[], Document]
) -> None:
    """Policies of Kyverno and Gatekeeper mark every object, also those of the operator."""
    document = made()
    for kind, added in BY_A_WEBHOOK.items():
        document["metadata"][kind] = document["metadata"].get(kind, {}) | added
    assert server.create(document) == ""


@pytest.mark.parametrize("namespace", [ORDINARY, "kube-system", "cotenant-system"])
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_nothing_is_made_outside_the_namespaces_of_tenants(
    server: Server, made: Callable[[], Document], namespace: str
) -> None:
    answer = server.create(made(), namespace)
    assert f"the operator makes nothing in namespace {namespace}, which is not labelled" in answer


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "train", "uid": UID, "controller": True}
METADATA: dict[str, tuple[Document, str]] = {
    "no owner": ({"ownerReferences": []}, "has one owner, a TrainingJob"),
    "an owner of another kind": ({"ownerReferences": [OWNER]}, "has one owner, a TrainingJob"),
    "no label": ({"labels": {}}, "carries the labels of its TrainingJob"),
    "another job's label": (
        {"labels": attempt(job="other").metadata["labels"]},
        "carries the labels of its TrainingJob",
    ),
}


OF_A_JOB = {what: made for what, made in MADE.items() if what != "a base NetworkPolicy"}


@pytest.mark.parametrize(("change", "says"), METADATA.values(), ids=METADATA)
@pytest.mark.parametrize("made", OF_A_JOB.values(), ids=OF_A_JOB)
def test_nothing_is_made_that_no_job_owns(
    server: Server, made: Callable[[], Document], change: Document, says: str
) -> None:
    document = made()
    document["metadata"] |= change
    assert says in server.create(document)


def without_contract(pod: Document) -> None:
    (container,) = pod["spec"]["containers"]
    container["env"] = [entry for entry in container["env"] if entry["name"] != "COTENANT_CONTRACT"]


OTHER = {"name": "other", "image": "example.com/other"}
ALL_NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ALL_NODES}}
USER, ROOT = "runs as an ordinary user", "is not privileged, has no capability"
NODE, SHAPE = "shares neither network", "has one container, worker"
BOUND, ACCOUNT, VOLUME = "is bound by the kube-scheduler", "carries no account", "a volume of the operator's pods is"
GPUS, TAINTS = "gets its GPUs from the RuntimeClass nvidia", "tolerates neither every taint"
POD_ATTACKS: dict[str, tuple[Change, str]] = {
    "privileged": (with_security(privileged=True, allowPrivilegeEscalation=True), ROOT),
    "escalation": (with_security(allowPrivilegeEscalation=True), ROOT),
    "a capability": (with_security(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), ROOT),
    "all capabilities": (with_security(capabilities={}), ROOT),
    "a writable root": (with_security(readOnlyRootFilesystem=False), ROOT),
    "root": (with_pod_security(runAsUser=0, runAsNonRoot=False), USER),
    "root in the container": (with_security(runAsUser=0, runAsNonRoot=False), ROOT),
    "unconfined": (with_pod_security(seccompProfile={"type": "Unconfined"}), USER),
    "unconfined in the container": (with_security(seccompProfile={"type": "Unconfined"}), ROOT),
    "a sysctl": (with_pod_security(sysctls=[{"name": "kernel.msgmax", "value": "1"}]), USER),
    "the host's network": (with_spec(hostNetwork=True), NODE),
    "the host's processes": (with_spec(hostPID=True), NODE),
    "the host's IPC": (with_spec(hostIPC=True), NODE),
    "a host's port": (with_container(ports=[{"containerPort": 1, "hostPort": 1}]), NODE),
    "a host path": (with_volume(hostPath={"path": "/"}), VOLUME),
    "a projected token": (
        with_volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}),
        VOLUME,
    ),
    "a CSI volume": (with_volume(csi={"driver": "a"}), VOLUME),
    "an NFS volume": (with_volume(nfs={"server": "a", "path": "/"}), VOLUME),
    "a mounted account": (with_spec(automountServiceAccountToken=True), ACCOUNT),
    "another account": (with_spec(serviceAccountName="builder"), ACCOUNT),
    "a node by name": (with_spec(nodeName="control-plane"), BOUND),
    "another scheduler": (with_spec(schedulerName="mine"), BOUND),
    "any node": (with_spec(affinity={}), BOUND),
    "nodes by label": (with_spec(affinity=AFFINITY), BOUND),
    "a second container": (lambda pod: pod["spec"]["containers"].append(OTHER), SHAPE),
    "an init container": (with_spec(initContainers=[OTHER]), SHAPE),
    "another program": (with_container(command=["sh", "-c", "id"]), SHAPE),
    "arguments": (with_container(args=["--anything"]), SHAPE),
    "a hook": (with_container(lifecycle={"postStart": {"exec": {"command": ["id"]}}}), SHAPE),
    "a Secret as variables": (with_container(envFrom=[{"secretRef": {"name": "s"}}]), SHAPE),
    "no contract": (without_contract, SHAPE),
    "a name of another's": (with_metadata(name="coredns"), "is called after its TrainingJob"),
    "a finalizer": (with_metadata(finalizers=["example.com/stay"]), "a webhook added example.com/stay: exempt pods"),
    "a system's priority": (with_spec(priorityClassName="system-node-critical"), "no priority class of the system's"),
    "every taint": (with_spec(tolerations=[{"operator": "Exists"}]), TAINTS),
    "the control plane": (
        with_spec(tolerations=[{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]),
        TAINTS,
    ),
    "another runtime class": (with_spec(runtimeClassName="kata"), GPUS),
    "GPUs by device plugin": (with_limit("nvidia.com/gpu"), GPUS),
    "GPUs by claim": (with_spec(resourceClaims=[{"name": "a", "resourceClaimName": "b"}]), GPUS),
}


@pytest.mark.parametrize(("change", "says"), POD_ATTACKS.values(), ids=POD_ATTACKS)
def test_no_pod_is_made_that_is_not_a_jobs(
    server: Server, request: pytest.FixtureRequest, change: Change, says: str
) -> None:
    pod = copy.deepcopy(worker())
    change(pod)
    if "resourceClaims" in pod["spec"] and request.config.getoption("--oldest"):
        pytest.skip("Kubernetes 1.32 drops claims before any policy sees them")
    assert says in server.create(pod)


@pytest.mark.parametrize("scheduler", ["gke.io/optimize-utilization-scheduler", "bin-packing-scheduler"])
def test_a_scheduler_that_the_platform_gives_every_pod_is_no_attack(server: Server, scheduler: str) -> None:
    """If a cluster packs its nodes, a webhook of GKE or Gardener sets this scheduler in every pod."""
    pod = copy.deepcopy(worker())
    with_spec(schedulerName=scheduler)(pod)
    assert server.create(pod) == ""


def test_the_network_device_that_eks_gives_a_pod_is_no_attack(server: Server) -> None:
    """AWS's webhook adds it to each pod to which a SecurityGroupPolicy of its namespace applies."""
    pod = copy.deepcopy(worker())
    with_limit("vpc.amazonaws.com/pod-eni")(pod)
    assert server.create(pod) == ""


TOKEN, HEADLESS, REACH = "is Opaque and immutable", "is headless", "lets the pods of its TrainingJob reach"
BASE = "the base NetworkPolicy lets the operator reach the pods of jobs, and nobody else"
NAMED = {"kubernetes.io/service-account.name": "builder"}


def token_of_an_account(secret: Document) -> None:
    secret |= {"type": "kubernetes.io/service-account-token", "data": {}}
    secret["metadata"]["annotations"] = NAMED


def name_elsewhere(service: Document) -> None:
    service["spec"] = {"type": "ExternalName", "externalName": "evil.example.com"}


ANYWHERE: list[Document] = [{"namespaceSelector": {}}]
ALL_ADDRESSES: list[Document] = [{"ipBlock": {"cidr": "0.0.0.0/0"}}]
SIDE_ATTACKS: dict[str, tuple[str, Change, str]] = {
    "a token of an account": ("a token", token_of_an_account, TOKEN),
    "another name": ("a token", with_metadata(name="registry"), TOKEN),
    "another key": ("a token", lambda secret: secret.update(data={"password": "eA=="}), TOKEN),
    "an annotation": ("a token", with_metadata(annotations=NAMED), TOKEN),
    "an annotation of Cotenant": ("a token", with_metadata(annotations={"cotenant.dev/placement": "{}"}), TOKEN),
    "a Secret that changes": ("a token", lambda secret: secret.update(immutable=False), TOKEN),
    "an address": ("a Service", lambda document: document["spec"].pop("clusterIP"), HEADLESS),
    "a port of every node": ("a Service", with_spec(type="NodePort", clusterIP=""), HEADLESS),
    "a name elsewhere": ("a Service", name_elsewhere, HEADLESS),
    "an address of others": ("a Service", with_spec(externalIPs=["10.0.0.1"]), HEADLESS),
    "pods of others": ("a Service", with_spec(selector={"app": "database"}), HEADLESS),
    "a Service of another name": ("a Service", with_metadata(name="database"), HEADLESS),
    "all pods": ("a NetworkPolicy", with_spec(podSelector={}), REACH),
    "one direction": ("a NetworkPolicy", with_spec(policyTypes=["Egress"], ingress=[]), REACH),
    "from everywhere": ("a NetworkPolicy", with_spec(ingress=[{}]), REACH),
    "from every namespace": ("a NetworkPolicy", with_spec(ingress=[{"from": ANYWHERE}]), REACH),
    "from every address": ("a NetworkPolicy", with_spec(ingress=[{"from": ALL_ADDRESSES}]), REACH),
    "a base from every address": ("a base NetworkPolicy", with_spec(ingress=[{"from": ALL_ADDRESSES}]), BASE),
    "all pods of a namespace": ("a base NetworkPolicy", with_spec(podSelector={}), BASE),
    "a base for one direction": ("a base NetworkPolicy", with_spec(policyTypes=["Egress"], ingress=[]), BASE),
    "a base from everywhere": ("a base NetworkPolicy", with_spec(ingress=[{}]), BASE),
    "a base from every namespace": ("a base NetworkPolicy", with_spec(ingress=[{"from": ANYWHERE}]), BASE),
    "a base that tenants may edit": ("a base NetworkPolicy", with_metadata(labels={}), BASE),
}


@pytest.mark.parametrize(("made", "change", "says"), SIDE_ATTACKS.values(), ids=SIDE_ATTACKS)
def test_nothing_is_made_beside_pods_that_no_job_needs(server: Server, made: str, change: Change, says: str) -> None:
    document = copy.deepcopy(MADE[made]())
    change(document)
    assert says in server.create(document)


def test_of_network_policies_only_the_base_is_changed_and_only_back(server: Server) -> None:
    own, base = network_policy(attempt(), SETTINGS), base_network_policy(TEAM, SETTINGS)
    del own["metadata"]["ownerReferences"]  # its job is not there, and it would be collected
    opened = copy.deepcopy(base)
    opened["spec"]["ingress"] = [{}]
    tenants: Document = base | {"metadata": {"name": "tenants"}, "spec": {"podSelector": {}}}
    for document in (own, opened, tenants):
        document["metadata"] |= {"namespace": TEAM}
        server.policies.create_namespaced_network_policy(TEAM, document, _headers=RESTORER)
    assert "changes no NetworkPolicy but the base" in server.change_policy(own["metadata"]["name"], own["spec"])
    assert "changes no NetworkPolicy but the base" in server.change_policy("tenants", {"ingress": [{}]})
    assert BASE in server.change_policy(base["metadata"]["name"], {"egress": []})
    assert server.change_policy(base["metadata"]["name"], base["spec"]) == ""


def test_nobody_else_makes_a_secret_that_the_operator_would_take_for_its_own(server: Server) -> None:
    planted = token_secret(attempt(), "known")
    planted["metadata"] = {"name": planted["metadata"]["name"]}  # labels and owner would be refused as well
    assert "names that begin with cotenant-token- are for the tokens" in server.create(planted, user=TENANT)
    other = planted | {"metadata": {"name": "own"}}
    assert server.create(other, user=TENANT) == ""


def test_no_secret_is_read(server: Server) -> None:
    assert "forbidden" in said(lambda: server.core.read_namespaced_secret("any", TEAM, _headers=OPERATOR))
    assert "forbidden" in said(lambda: server.core.list_namespaced_secret(TEAM, _headers=OPERATOR))
    assert "forbidden" in said(lambda: server.core.list_secret_for_all_namespaces(_headers=OPERATOR))


def test_of_secrets_only_tokens_of_attempts_are_deleted(server: Server) -> None:
    ours, theirs = token_secret(attempt(), "t"), token_secret(attempt(), "t")
    theirs["metadata"] |= {"name": "registry"}
    for secret in (ours, theirs):
        del secret["metadata"]["ownerReferences"]
        server.core.create_namespaced_secret(
            ORDINARY, secret | {"metadata": secret["metadata"] | {"namespace": ORDINARY}}, _headers=RESTORER
        )
    assert server.delete_secret(ours["metadata"]["name"], ORDINARY) == ""
    answer = server.delete_secret("registry", ORDINARY)
    assert "the operator deletes only the tokens of attempts, and registry is none" in answer


def test_only_pods_of_the_operators_making_are_ended_whatever_their_labels(server: Server) -> None:
    ours, theirs = worker(), worker()
    ours["metadata"] = {"name": "unlabelled"}
    theirs["metadata"] = {"name": "labelled", "labels": attempt().metadata["labels"]}
    without_contract(theirs)
    for pod in (ours, theirs):
        server.core.create_namespaced_pod(ORDINARY, pod, _headers=RESTORER)
    assert server.delete_pod("unlabelled", ORDINARY) == ""
    answer = server.delete_pod("labelled", ORDINARY)
    assert "the operator ends only pods of its own making, and labelled is none" in answer


def job(name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "annotations": {"cotenant.dev/user": "kubernetes-admin"}},
        "spec": {"queue": "none", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}, **spec},
    }


@pytest.mark.parametrize(
    ("name", "spec", "phase", "allowed"),
    [
        ("ended", {"ttlAfterFinished": "1m"}, "Succeeded", True),
        ("failed", {"ttlAfterFinished": "1m"}, "Failed", True),
        ("kept", {}, "Succeeded", False),
        ("waits", {"ttlAfterFinished": "1m"}, "Pending", False),
        ("new", {"ttlAfterFinished": "1m"}, "", False),
    ],
)
def test_only_jobs_that_ended_and_may_go_are_deleted(
    server: Server, name: str, spec: Document, phase: str, allowed: bool
) -> None:
    server.custom.create_namespaced_custom_object(*JOBS, job(name, **spec))
    if phase:
        status = {"status": {"phase": phase}}
        patch = server.custom.patch_namespaced_custom_object_status
        patch(*JOBS, name, status, _headers=OPERATOR, _content_type=MERGE)
    answer = server.delete_job(name)
    assert (answer == "") if allowed else ("only TrainingJobs that have ended and say ttlAfterFinished" in answer)


@pytest.mark.parametrize(
    ("metadata", "allowed"),
    [
        ({"annotations": {"suspect.cotenant.dev/GPU-1": "slow"}}, True),
        ({"annotations": {"slow-reports.cotenant.dev/GPU-1": "a/a=2026-11-22T14:00:00Z"}}, True),
        ({"annotations": {"cotenant.dev/uncordon": "all"}}, False),
        (BY_A_WEBHOOK, True),
        ({"labels": {"cotenant.dev/gpu-class": "H100"}}, False),
        ({"finalizers": ["example.com/stay"]}, False),
    ],
    ids=str,
)
def test_a_gpunode_is_told_of_slow_gpus_and_of_nothing_else(server: Server, metadata: Document, allowed: bool) -> None:
    answer = server.annotate_node(metadata)
    assert (answer == "") if allowed else ("which GPUs were found slow, and nothing else" in answer)


def event(**fields: Any) -> Document:
    involved = {"apiVersion": "cotenant.dev/v1beta1", "kind": "TrainingJob", "name": "a", "namespace": TEAM}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1"},
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingComponent": "cotenant.dev/operator",
        "reportingInstance": "a",
        "action": "Admitted",
        "reason": "Admitted",
        "involvedObject": involved,
        "type": "Normal",
    } | fields


@pytest.mark.parametrize(
    ("document", "allowed"),
    [
        (event(), True),
        (event(reportingComponent="kubelet"), False),
        (event(involvedObject={"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": TEAM}), False),
    ],
    ids=["its own", "in another's name", "of another's object"],
)
def test_events_are_told_of_jobs_in_the_operators_name(server: Server, document: Document, allowed: bool) -> None:
    create = server.core.create_namespaced_event
    answer = said(lambda: create(TEAM, document, dry_run="All", _headers=OPERATOR))
    assert (answer == "") if allowed else ("the operator tells of its own kinds and of its own APIService" in answer)


def test_there_is_one_lease(server: Server) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "another"}, "spec": {}}
    assert "the operators compete for one Lease, cotenant-operator" in server.create(lease, "cotenant-system")
    patch = kubernetes.client.CoordinationV1Api(server.core.api_client).patch_namespaced_lease
    body = {"spec": {"holderIdentity": "me"}}
    assert "forbidden" in said(lambda: patch("another", "cotenant-system", body, dry_run="All", _headers=OPERATOR))
