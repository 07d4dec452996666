"""Checks of the agents: every GPU node has one that reports, a working driver and toolkit, and a right clock."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from cotenant import names
from cotenant.api.scalars.agent_reports import heartbeat, stored_at
from cotenant.cli.administrators.gpu_shares import is_silent, silent_s
from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity, component_of

CLOCK_S: Final = 5.0
"""Two clocks may differ by this many seconds."""
REPORT_S: Final = 120.0
"""Most seconds between a look at the GPUs and its report, while the driver hangs; then `GPUsUnreadable` says so."""
OLDEST_TOOLKIT: Final = (1, 17, 8)
GPU_RESOURCE: Final = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-.+)")
"""Resources as which NVIDIA's device plugin offers GPUs, in each of its modes."""
NAMED_NODES: Final = 8


def gpu_nodes(cluster: SeenCluster) -> set[str]:
    """Nodes with a GPU label or a GPU resource."""
    found = set()
    for node in cluster.items("nodes"):
        labels = node["metadata"].get("labels") or {}
        capacity = (node.get("status") or {}).get("capacity") or {}
        annotated = names.ANNOTATION_SIMULATED_GPUS in (node["metadata"].get("annotations") or {})
        if labels.get(names.LABEL_NVIDIA_PRESENT) == "true" or any(map(GPU_RESOURCE.fullmatch, capacity)) or annotated:
            found.add(node["metadata"]["name"])
    return found


def agents(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """Checks that every GPU node has an agent that reports, a working driver and toolkit, and a right clock."""
    if not cluster.is_installed:
        return
    if not cluster.items("daemonSets") and not cluster.may_not("daemonSets"):
        yield Diagnosis(
            Severity.ERROR, "DaemonSet cotenant-agent", "is not there: no GPU is handed out",
            "helm upgrade the release, with agent.enabled=true",
        )  # fmt: skip
    if cluster.may_not("gpuNodes"):
        return
    known = {one["metadata"]["name"]: one for one in cluster.items("gpuNodes")}
    without = gpu_nodes(cluster) - known.keys()
    others = {name for name in without if not _is_chosen(cluster, name)}
    if others:
        yield _left_out(cluster, sorted(others))
    for name in sorted(without - others):
        yield Diagnosis(
            Severity.ERROR, f"node {name}", "has GPUs and no agent: they are not handed out",
            f"kubectl get pods -A -o wide --field-selector spec.nodeName={name} -l app.kubernetes.io/component=agent;"
            " its log says what is missing. No such pod: label the node cotenant.dev/gpu-class= (docs/platforms.md), or"
            " see agent.nodeSelector and agent.tolerations",
        )  # fmt: skip
    for name, node in sorted(known.items()):
        yield from _agent(name, node, cluster.now)


def rollout(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """Finds a rolling update of agents that pods on broken nodes hold up: Kubernetes counts them as being updated."""
    for one in cluster.items("daemonSets"):
        status, strategy = one.get("status") or {}, (one.get("spec") or {}).get("updateStrategy") or {}
        wanted, away = status.get("desiredNumberScheduled", 0), status.get("numberUnavailable", 0)
        old = wanted - status.get("updatedNumberScheduled", wanted)
        most = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        allowed = most if isinstance(most, int) else math.ceil(wanted * int(most.removesuffix("%")) / 100)
        if old > 0 and away >= max(allowed, 1):
            yield Diagnosis(
                Severity.WARNING, f"DaemonSet {one['metadata']['name']}",
                f"{old} of {wanted} pods are of an older release, and {away} cannot run, which is as many as an update"
                f" lets be away (maxUnavailable: {most}): if that stays so, no other is updated",
                "mend these nodes or take them out of the cluster; or helm upgrade … --set"
                f" agent.updateStrategy.rollingUpdate.maxUnavailable={away + 1}",
            )  # fmt: skip


def _agent(name: str, node: Mapping[str, Any], now: datetime) -> Iterator[Diagnosis]:
    status, silent = node.get("status") or {}, silent_s(node, now)
    if silent is None or is_silent(node, now):
        heard = "has never been heard" if silent is None else f"has not been heard for {silent:.0f} s"
        look = f"kubectl get pods -A --field-selector spec.nodeName={name} -l app.kubernetes.io/component=agent"
        yield Diagnosis(Severity.ERROR, f"node {name}", f"its agent {heard}: no new jobs start there", look)
    elif wrong := _wrong_clock(node, now):
        yield Diagnosis(
            Severity.WARNING, f"node {name}", wrong, "let it follow a time server (timedatectl, chronyc tracking)"
        )
    if status.get("simulated"):
        yield Diagnosis(Severity.NOTE, f"node {name}", "its GPUs are simulated", "for real ones: agent.simulate=false")
        return
    toolkit = status.get("toolkitVersion", "")
    parts = tuple(int(part) for part in re.findall(r"\d+", toolkit)[:3])
    if parts and parts < OLDEST_TOOLKIT:
        yield Diagnosis(
            Severity.ERROR, f"node {name}", f"container toolkit {toolkit} is older than 1.17.8: containers can escape",
            "upgrade nvidia-container-toolkit on the node",
        )  # fmt: skip
    if not status.get("gpus"):
        yield Diagnosis(Severity.WARNING, f"node {name}", "its agent finds no GPU", "nvidia-smi -L on the node")
    for path in (status.get("capabilities") or {}).get("paths") or ():
        if path["path"] == "MemoryLimit" and not path.get("available"):
            yield Diagnosis(
                Severity.NOTE, f"node {name}", f"limits of GPU memory are not hard: {path.get('reason', '')}",
                "driver r615, container toolkit 1.20.1 and cgroup v2 make them hard (docs/isolation.md)",
            )  # fmt: skip
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True":
            message = f"{condition['type']}: {condition.get('message', '')}"
            yield Diagnosis(
                Severity.WARNING, f"node {name}", message, "docs/isolation.md#the-levels says what it means"
            )


def _wrong_clock(node: Mapping[str, Any], now: datetime) -> str:
    """How the node's clock differs from the API server's; empty if it does not."""
    beat, stored = heartbeat(node), stored_at(node)
    if beat is None:
        return ""
    ahead = (beat - (stored or now)).total_seconds()
    if ahead > CLOCK_S:
        return f"its clock is {ahead:.0f} s ahead"
    return f"its clock is {-ahead:.0f} s behind" if stored is not None and ahead < -REPORT_S else ""


def _selectors(cluster: SeenCluster) -> list[Mapping[str, str]]:
    """Labels by which an administrator chose the nodes of each DaemonSet of agents; empty if the chart chose them."""
    sets = [one for one in cluster.items("daemonSets") if component_of(one) == "agent"]
    pods = [((one.get("spec") or {}).get("template") or {}).get("spec") or {} for one in sets]
    return [
        {key: value for key, value in (pod.get("nodeSelector") or {}).items() if key != "kubernetes.io/os"}
        for pod in pods
    ]


def _is_chosen(cluster: SeenCluster, name: str) -> bool:
    """The selector of some DaemonSet takes the node."""
    (node,) = (one for one in cluster.items("nodes") if one["metadata"]["name"] == name)
    labels = node["metadata"].get("labels") or {}
    selectors = _selectors(cluster)
    return not selectors or any(labels.items() >= selector.items() for selector in selectors)


def _left_out(cluster: SeenCluster, nodes: list[str]) -> Diagnosis:
    """GPU nodes that the administrator keeps for another system."""
    more = f" and {len(nodes) - NAMED_NODES} more" if len(nodes) > NAMED_NODES else ""
    labels = " ".join(f"{key}={value}" for key, value in _selectors(cluster)[0].items())
    return Diagnosis(
        Severity.NOTE, f"nodes {', '.join(nodes[:NAMED_NODES])}{more}",
        "have GPUs, and agent.nodeSelector leaves them out: they are not handed out",
        f"if they are to be: kubectl label node NODE {labels}",
    )  # fmt: skip
