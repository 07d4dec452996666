"""Plans of clusters for tests: one node after the other, with the addresses that the planner would give."""

from pathlib import Path
from typing import Any

from cotenant_local.host.addresses import FAMILIES
from cotenant_local.host.cluster_plan import ClusterPlan, NodePlan


def node_plan(index: int = 0, **changes: Any) -> NodePlan:
    whole: dict[str, Any] = {
        "name": f"node-{index + 1}",
        "address": FAMILIES["IPv4"].node(index),
        "pod_cidr": FAMILIES["IPv4"].node_pods(index),
        "pods": 110,
        "cpu": None,
        "memory_bytes": None,
        "withheld_bytes": 0,
        "manifest": {"kind": "Node", "metadata": {"name": f"node-{index + 1}"}},
        "resources": {},
    }
    return NodePlan(**{**whole, **changes})


def cluster_plan(nodes: int = 1, **changes: Any) -> ClusterPlan:
    whole: dict[str, Any] = {
        "name": "demo",
        "programs": Path("/programs"),
        "stubs": Path("/stubs"),
        "oldest": None,
        "python": Path("/venv/bin/python"),
        "catalogue": Path("/images.json"),
        "nodes": tuple(node_plan(index) for index in range(nodes)),
        "forwards": (),
        "api_port": 40000,
        "cgroup_parent": None,
    }
    return ClusterPlan(**{**whole, **changes})
