"""Whether jobs tolerate the taints of GPU nodes: if not, nothing starts there, and the node looks ready."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant.api.scalars.taints import untolerated_taint
from cotenant.cli.administrators.health.agents import gpu_nodes
from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity

TOLERATIONS: Final = "COTENANT_TOLERATIONS"
KUBERNETES: Final = "node.kubernetes.io/"
"""Prefix of taints that Kubernetes sets and takes off by itself, as for a cordon."""


def taints(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """Finds taints, except those of Kubernetes. The operator tells jobs that wait for such a node."""
    tolerated = _tolerated(cluster)
    if tolerated is None:
        return
    nodes = gpu_nodes(cluster) | {one["metadata"]["name"] for one in cluster.items("gpuNodes")}
    for node in cluster.items("nodes"):
        name = node["metadata"]["name"]
        for taint in (node.get("spec") or {}).get("taints") or () if name in nodes else ():
            key = taint["key"]
            if key.startswith(KUBERNETES) or untolerated_taint([taint], tolerated) is None:
                continue
            yield Diagnosis(
                Severity.WARNING, f"node {name}", f"has the taint {key}, which jobs do not tolerate: none starts there",
                f"kubectl taint node {name} {key}-; or add the taint to worker.tolerations",
            )  # fmt: skip


def _tolerated(cluster: SeenCluster) -> list[Mapping[str, Any]] | None:
    """What worker pods tolerate, as the operator is set; None if that is not to be seen."""
    set_to = next((env[TOLERATIONS] for env in cluster.environments("operator") if TOLERATIONS in env), None)
    return None if set_to is None else list(json.loads(set_to or "[]"))
