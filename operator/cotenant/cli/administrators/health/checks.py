"""The checks of what Cotenant needs of a cluster. Documents in, findings with their fixes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

from cotenant import names
from cotenant.cli.administrators.health.agents import CLOCK_S, agents, gpu_nodes, rollout
from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity, component_of, is_ours
from cotenant.cli.administrators.health.refusals import fix_of, refused_jobs, said_of
from cotenant.cli.administrators.migrate import APPLY
from cotenant.cli.terminal.output import counted

OLDEST: Final = (1, 32)
OLDEST_WITH_QUESTIONS: Final = (1, 33)
KINDS: Final = (
    "gpunodes",
    "localqueues",
    "queues",
    "quotarequests",
    "bookings",
    "remoteclusters",
    "clustertrainingprofiles",
    "trainingprofiles",
    "sessions",
    "sweeps",
    "trainingjobs",
)
PROFILE: Final = "pod-security.kubernetes.io/enforce"
APPEARS_S: Final = 60.0
"""The API of questions may take this long to answer after an installation or a change of the leader."""


def versions(cluster: SeenCluster) -> Iterator[Diagnosis]:
    shown = ".".join(str(part) for part in cluster.version)
    if cluster.version < OLDEST:
        yield Diagnosis(
            Severity.ERROR, "Kubernetes", f"is {shown}; 1.32 is the oldest that works", "upgrade the cluster"
        )
    elif cluster.version < OLDEST_WITH_QUESTIONS:
        yield Diagnosis(
            Severity.WARNING, "Kubernetes", f"is {shown}: why, whatif, offer, ps and queues need 1.33",
            "upgrade the cluster; all else works",
        )  # fmt: skip
    if "frontProxy" not in cluster.seen and not cluster.may_not("frontProxy"):
        yield Diagnosis(
            Severity.WARNING, "API aggregation", "is not set up, so nobody can ask the operator questions",
            "start the API server with --requestheader-client-ca-file and the other flags of the aggregation layer",
        )  # fmt: skip


def crds(cluster: SeenCluster) -> Iterator[Diagnosis]:
    if not cluster.is_installed or "crds" not in cluster.seen:
        return
    there = {crd["spec"]["names"]["plural"]: crd for crd in cluster.items("crds") if is_ours(crd)}
    for kind in KINDS:
        if kind not in there:
            yield Diagnosis(Severity.ERROR, f"CRD {kind}.{names.GROUP}", "is not there", APPLY)
        elif not any(one["name"] == names.VERSION and one.get("served") for one in there[kind]["spec"]["versions"]):
            yield Diagnosis(Severity.ERROR, f"CRD {kind}.{names.GROUP}", f"does not serve {names.VERSION}", APPLY)
    stored = {kind: (crd.get("status") or {}).get("storedVersions", ()) for kind, crd in sorted(there.items())}
    if older := [kind for kind, versions in stored.items() if len(versions) > 1]:
        message = f"{', '.join(older)}: some may be stored in a version of the API that will go"
        yield Diagnosis(Severity.NOTE, "stored objects", message, "kubectl cotenant migrate")


def operators(cluster: SeenCluster) -> Iterator[Diagnosis]:
    if not cluster.is_installed or cluster.may_not("deployments"):
        return
    found = [one for one in cluster.items("deployments") if component_of(one) == "operator"]
    if not found:
        install = "helm install cotenant charts/cotenant --namespace cotenant-system"
        yield Diagnosis(Severity.ERROR, "operator", "there is no Deployment of it: nothing is decided", install)
    for one in found:
        ready, wanted = (one.get("status") or {}).get("readyReplicas", 0), one["spec"].get("replicas", 1)
        where = f"-n {one['metadata']['namespace']}"
        if not wanted:
            yield Diagnosis(
                Severity.ERROR, "operator", "is scaled to 0 replicas: nothing is decided, and jobs that run go on",
                f"kubectl scale {where} deployment/{one['metadata']['name']} --replicas=2",
            )  # fmt: skip
        elif not ready:
            look = f"kubectl logs {where} deployment/{one['metadata']['name']}; kubectl describe pods {where}"
            about = "ReplicaSet", one["metadata"]["namespace"], one["metadata"]["name"]
            message = f"no replica is ready and nothing is decided{said_of(cluster, *about)}"
            yield Diagnosis(Severity.ERROR, "operator", message, fix_of(cluster, *about, otherwise=look))
        elif ready < wanted:
            yield Diagnosis(
                Severity.WARNING, "operator", f"{ready} of {wanted} replicas are ready", f"kubectl get pods {where}"
            )
    if len(found) > 1:
        yield Diagnosis(
            Severity.ERROR, "operator", "there are several of them in this cluster", "uninstall all but one"
        )


def roles(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """Checks that the service accounts of operator and agents are bound to their roles."""
    if not cluster.is_installed or "roleBindings" not in cluster.seen:
        return
    bound = {one["metadata"]["name"] for one in cluster.items("roleBindings")}
    wanted = {"cotenant-operator"} | {"cotenant-agent" for _ in cluster.items("daemonSets")}
    for name in sorted(wanted - bound):
        message = "is not there: its account may do nothing"
        yield Diagnosis(Severity.ERROR, f"ClusterRoleBinding {name}", message, "helm upgrade the release")


def questions(cluster: SeenCluster) -> Iterator[Diagnosis]:
    service = cluster.seen.get("apiService")
    if service is None:
        if cluster.is_installed and cluster.version >= OLDEST_WITH_QUESTIONS and not cluster.may_not("apiService"):
            yield Diagnosis(
                Severity.WARNING, f"APIService {names.QUERY_GROUP}", "is not there: why and whatif are not answered",
                "helm upgrade … --set query.enabled=true",
            )  # fmt: skip
        return
    for condition in (service.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Available" and condition["status"] != "True":
            since, said = condition.get("lastTransitionTime"), condition.get("message", "")
            age_s = (cluster.now - datetime.fromisoformat(since)).total_seconds() if since else APPEARS_S
            if age_s < APPEARS_S:
                yield Diagnosis(
                    Severity.WARNING, f"APIService {names.QUERY_GROUP}", f"has not answered for {age_s:.0f} s: {said}",
                    "ask again in a minute: after an installation or a change of the leader it takes some seconds",
                )  # fmt: skip
                return
            yield Diagnosis(
                Severity.ERROR, f"APIService {names.QUERY_GROUP}",
                f"is not available, and Kubernetes ends no namespace meanwhile: {said}",
                "see that an operator leads and that the control plane reaches its port (query.port, 10250 by default):"
                " docs/platforms.md; or query.enabled=false",
            )  # fmt: skip


def runtime_class(cluster: SeenCluster) -> Iterator[Diagnosis]:
    known = {one["metadata"]["name"] for one in cluster.items("runtimeClasses")}
    simulated = [(one.get("status") or {}).get("simulated") for one in cluster.items("gpuNodes")]
    if gpu_nodes(cluster) and "nvidia" not in known and not (simulated and all(simulated)):
        yield Diagnosis(
            Severity.ERROR, "RuntimeClass nvidia", "is not there: no pod can have GPUs",
            "install the NVIDIA container toolkit, or the GPU Operator without its NRI plugin, or name yours in"
            " agent.runtimeClass",
        )  # fmt: skip


def policies(cluster: SeenCluster) -> Iterator[Diagnosis]:
    if not cluster.is_installed or cluster.may_not("policies"):
        return
    there = {one["metadata"]["name"] for one in cluster.items("policies")}
    bound = {one["spec"]["policyName"] for one in cluster.items("bindings")}
    ours = {name for name in there if name.startswith("cotenant")}
    if not ours:
        yield Diagnosis(
            Severity.ERROR, "admission policies", "are not there: tenants may take GPUs behind the operator's back",
            "helm upgrade … --set admission.enabled=true",
        )  # fmt: skip
    missing = {name for name in bound - there if name.startswith("cotenant")} if ours else set()
    for name in sorted((ours - bound) | missing):
        what = "is not there, though it is bound" if name in missing else "is bound to nothing"
        yield Diagnosis(Severity.ERROR, f"policy {name}", f"{what}, so it judges nobody", "helm upgrade the release")


def tenants(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """Finds queues that no tenant can use, and namespaces that a queue names but that lack a label."""
    is_required = any(one["metadata"]["name"] == "cotenant-tenant-namespaces" for one in cluster.items("policies"))
    profile = f" {PROFILE}=restricted" if is_required else ""
    labels = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in cluster.items("namespaces")}
    for queue in cluster.items("queues"):
        name = queue["metadata"]["name"]
        for condition in (queue.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Ready" and condition["status"] == "False":
                look = f"kubectl edit queue {name}"
                yield Diagnosis(Severity.ERROR, f"queue {name}", str(condition.get("message", "")), look)
        for namespace in queue["spec"].get("namespaces") or ():
            if labels and namespace not in labels:
                yield Diagnosis(
                    Severity.NOTE, f"queue {name}", f"names namespace {namespace}, which is not there",
                    f"kubectl edit queue {name}, if the name is mistyped",
                )  # fmt: skip
            elif labels and labels[namespace].get(names.LABEL_TENANT) != "true":
                yield Diagnosis(
                    Severity.WARNING, f"queue {name}", f"names namespace {namespace}, which is not labelled a tenant's",
                    f"kubectl label namespace {namespace} {names.LABEL_TENANT}=true{profile}",
                )  # fmt: skip
            elif is_required and namespace in labels and labels[namespace].get(PROFILE) != "restricted":
                yield Diagnosis(
                    Severity.WARNING, f"namespace {namespace}", "is a tenant's, and its pods may be privileged",
                    f"kubectl label namespace {namespace} {PROFILE}=restricted --overwrite",
                )  # fmt: skip


def missing_queues(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """Queues that are not there although jobs hold GPUs in their name: the operator keeps them in its tree."""
    there = {one["metadata"]["name"] for one in cluster.items("queues")}
    for one in cluster.items("queueTree") if "queues" in cluster.seen else ():
        name, holding = one["metadata"]["name"], one["status"].get("holding", 0)
        if name not in there and holding:
            yield Diagnosis(
                Severity.WARNING, f"queue {name}",
                f"is not there; the GPUs of {counted(holding, 'job')} of it count as borrowed",
                f"make the Queue again, or let them end: kubectl cotenant ps -A --queue {name}",
            )  # fmt: skip


def clocks(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """Compares clocks. The leader renews its Lease every few seconds, so a renewal in the future shows a wrong
    clock.
    """
    for lease in cluster.items("leases"):
        renewed = lease["spec"].get("renewTime")
        if lease["metadata"]["name"] != "cotenant-operator" or not renewed:
            continue
        ahead = (datetime.fromisoformat(renewed).astimezone(UTC) - cluster.now).total_seconds()
        if ahead > CLOCK_S:
            yield Diagnosis(
                Severity.WARNING, "operator", f"its clock is {ahead:.0f} s ahead of the API server's",
                "let both follow a time server (timedatectl, chronyc tracking)",
            )  # fmt: skip


def pod_security(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """Checks that Pod Security allows host paths in the agents' namespace, and that each of their pods is made."""
    sets = cluster.items("daemonSets")
    labels = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in cluster.items("namespaces")}
    homes = {one["metadata"]["namespace"] for one in sets}
    refusing = {home for home in homes if labels.get(home, {}).get(PROFILE) in {"baseline", "restricted"}}
    for home in sorted(refusing):
        yield Diagnosis(
            Severity.ERROR, f"namespace {home}", "its Pod Security profile refuses the agent's host paths",
            f"kubectl label namespace {home} {PROFILE}=privileged --overwrite",
        )  # fmt: skip
    for one in sets:
        name, namespace, status = one["metadata"]["name"], one["metadata"]["namespace"], one.get("status") or {}
        wanted, there = status.get("desiredNumberScheduled", 0), status.get("currentNumberScheduled", 0)
        if there < wanted and namespace not in refusing:
            about = "DaemonSet", namespace, name
            message = f"has pods on {there} of {wanted} nodes{said_of(cluster, *about)}"
            fix = fix_of(cluster, *about, otherwise=f"kubectl describe daemonset -n {namespace} {name}")
            yield Diagnosis(Severity.ERROR, f"DaemonSet {name}", message, fix)


CHECKS: Final[tuple[Callable[[SeenCluster], Iterator[Diagnosis]], ...]] = (
    versions, crds, operators, roles, questions, runtime_class, agents, rollout, pod_security, policies, tenants,
    missing_queues, refused_jobs, clocks,
)  # fmt: skip
