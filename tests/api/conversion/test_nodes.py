"""A node of the core from its GPUNode and its v1 Node; what other pods take of it."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion import nodes, to_core
from cotenant.core.model import objects as core

CREATED = "2026-01-01T00:00:00Z"
CREATED_AT = 1767225600.0
GPUNODE = {
    "apiVersion": "cotenant.dev/v1beta1",
    "kind": "GPUNode",
    "metadata": {"name": "node-1"},
    "status": {
        "heartbeat": CREATED,
        "gpus": [
            {"uuid": "GPU-1", "index": 0, "class": "H100", "memoryMiB": 81920, "peers": ["GPU-2"]},
            {"uuid": "GPU-2", "index": 1, "class": "H100", "memoryMiB": 81920, "healthy": False, "health": "Xid 79"},
        ],
    },
}
NODE: dict[str, Any] = {
    "metadata": {
        "name": "node-1",
        "labels": {
            "topology.kubernetes.io/zone": "eu-1a",
            "topology.kubernetes.io/rack": "r7",
            "cotenant.dev/gpu-class": "H100-NVL",
        },
        "annotations": {"cotenant.dev/shared-by-queues": "true"},
    },
    "spec": {},
    "status": {
        "allocatable": {"cpu": "3920m", "memory": "65879884Ki", "ephemeral-storage": "95551679124"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


@pytest.mark.parametrize(
    ("health", "healthy", "suspect"),
    [
        ("", True, False),
        ("Slow: team-a/uneven: rank 1 needed 500.0 ms for what its other ranks did in 5.0 ms", True, True),
        ("Slow: team-a/uneven: rank 1 …; Throttled: slowed down by heat or power for 12 min", True, True),
        ("Throttled: slowed down by heat or power for 12 min", True, False),
        ("Slow: team-a/uneven: rank 1 …", False, False),
    ],
)
def test_a_healthy_gpu_that_a_job_found_slow_is_suspect(health: str, healthy: bool, suspect: bool) -> None:
    gpu = {"uuid": "GPU-1", "index": 0, "class": "H100", "memoryMiB": 81920, "healthy": healthy, "health": health}
    document = GPUNODE | {"status": {"heartbeat": CREATED, "gpus": [gpu]}}
    node = nodes.to_node(to_core.parse_gpunode(document), nodes.to_node_facts(NODE), now=CREATED_AT)
    assert [(one.healthy, one.suspect) for one in node.gpus] == [(healthy, suspect)]


def test_a_node_is_what_the_agent_and_the_kubelet_say_together() -> None:
    node = nodes.to_node(
        to_core.parse_gpunode(GPUNODE),
        nodes.to_node_facts(NODE),
        now=CREATED_AT + 60,
        cpu_used=920,
        memory_used=335,
        scratch_used=1_124,
    )
    assert node == core.Node(
        name="node-1",
        gpus=(
            core.Gpu(uuid="GPU-1", gpu_class="H100-NVL", memory_mib=81920, index=0, peers=frozenset({"GPU-2"})),
            core.Gpu(uuid="GPU-2", gpu_class="H100-NVL", memory_mib=81920, index=1, healthy=False),
        ),
        cpu_milli=3000,
        memory_mib=64000,
        scratch_mib=90_001,
        zone="eu-1a",
        rack="r7",
        shared_by_queues=True,
    )


@pytest.mark.parametrize(
    ("change", "late_s", "why"),
    [
        ({}, 61, ""),
        ({"spec": {"unschedulable": True}}, 0, "cordoned"),
        ({"status": {**NODE["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}}, 0, "not Ready"),
        ({"status": {}}, 0, "not Ready"),
    ],
    ids=["its agent is silent", "cordoned", "not ready", "says nothing"],
)
def test_a_node_that_cannot_be_relied_on_is_not_ready(change: dict[str, Any], late_s: int, why: str) -> None:
    facts = nodes.to_node_facts(NODE | change)
    node = nodes.to_node(to_core.parse_gpunode(GPUNODE), facts, now=CREATED_AT + late_s)
    assert (node.ready, node.unready_because) == (False, why)


@pytest.mark.parametrize(
    ("label", "state", "is_left"),
    [
        ("nvidia.com/gpu-driver-upgrade-state", "upgrade-required", False),
        ("nvidia.com/gpu-driver-upgrade-state", "cordon-required", True),
        ("nvidia.com/gpu-driver-upgrade-state", "wait-for-jobs-required", True),
        ("nvidia.com/gpu-driver-upgrade-state", "pod-deletion-required", True),
        ("nvidia.com/gpu-driver-upgrade-state", "drain-required", True),
        ("nvidia.com/gpu-driver-upgrade-state", "pod-restart-required", True),
        ("nvidia.com/gpu-driver-upgrade-state", "uncordon-required", False),
        ("nvidia.com/gpu-driver-upgrade-state", "upgrade-done", False),
        ("nvidia.com/mig.config.state", "pending", True),
        ("nvidia.com/mig.config.state", "rebooting", True),
        ("nvidia.com/mig.config.state", "success", False),
    ],
)
def test_a_node_on_which_the_gpu_operator_works_takes_no_jobs_and_its_jobs_leave(
    label: str, state: str, is_left: bool
) -> None:
    facts = nodes.to_node_facts(NODE | {"metadata": {**NODE["metadata"], "labels": {label: state}}})
    assert (bool(facts.drained_by), facts.ready) == (is_left, not is_left)
    assert (f"{label}={state}" in facts.unready_because) is is_left


def test_a_label_names_the_class_of_whole_gpus_and_an_instance_keeps_its_profile() -> None:
    gpus = [
        {"uuid": "GPU-1", "index": 0, "class": "H100", "memoryMiB": 81920},
        {"uuid": "MIG-1", "index": 200, "class": "H100-NVL-1g.10gb", "memoryMiB": 10240, "parent": "GPU-2"},
    ]
    seen = to_core.parse_gpunode(GPUNODE | {"status": {"heartbeat": CREATED, "gpus": gpus}})
    node = nodes.to_node(seen, nodes.to_node_facts(NODE), now=CREATED_AT)
    assert [(gpu.uuid, gpu.gpu_class) for gpu in node.gpus] == [("GPU-1", "H100-NVL"), ("MIG-1", "H100-NVL-1g.10gb")]


@pytest.mark.parametrize(
    ("allocatable", "used", "left"), [("29", 20, 9), ("29", 40, 0), (None, 40, core.MANY_PODS - 40)]
)
def test_a_node_takes_as_many_pods_as_its_kubelet_does(allocatable: str | None, used: int, left: int) -> None:
    amounts = NODE["status"]["allocatable"] | ({"pods": allocatable} if allocatable else {})
    facts = nodes.to_node_facts(NODE | {"status": NODE["status"] | {"allocatable": amounts}})
    assert nodes.to_node(to_core.parse_gpunode(GPUNODE), facts, now=CREATED_AT, pods_used=used).pods == left


@pytest.mark.parametrize(
    ("allocatable", "used", "left"), [("300Gi", 100_000, 207_200), ("10Gi", 20_000, 0), (None, 0, 0)],
    ids=["less what others request", "less than they request", "a kubelet that counts none"],
)  # fmt: skip
def test_a_node_has_the_scratch_space_that_the_kube_scheduler_counts(
    allocatable: str | None, used: int, left: int
) -> None:
    amounts = {"cpu": "4", "memory": "8Gi"} | ({"ephemeral-storage": allocatable} if allocatable else {})
    facts = nodes.to_node_facts(NODE | {"status": NODE["status"] | {"allocatable": amounts}})
    node = nodes.to_node(to_core.parse_gpunode(GPUNODE), facts, now=CREATED_AT, scratch_used=used)
    assert node.scratch_mib == left


@pytest.mark.parametrize(("memory_mib", "whole_only"), [(0, True), (81_920, False)])
def test_a_gpu_of_unknown_memory_is_handed_out_whole(memory_mib: int, whole_only: bool) -> None:
    gpu = {"uuid": "GPU-1", "index": 0, "class": "GB10", "memoryMiB": memory_mib}
    agent = to_core.parse_gpunode(GPUNODE | {"status": {"heartbeat": CREATED, "gpus": [gpu]}})
    node = nodes.to_node(agent, nodes.to_node_facts(NODE), now=CREATED_AT)
    assert [one.whole_only for one in node.gpus] == [whole_only]


def test_a_device_that_the_kubelet_hands_out_is_whole_whatever_its_agent_says() -> None:
    gpu = {"uuid": "AMD-1", "index": 0, "class": "MI300X", "memoryMiB": 0, "resource": "amd.com/gpu"}
    agent = to_core.parse_gpunode(GPUNODE | {"status": {"heartbeat": CREATED, "gpus": [gpu]}})
    node = nodes.to_node(agent, nodes.to_node_facts(NODE), now=CREATED_AT)
    assert [(one.resource, one.whole_only, one.gpu_class) for one in node.gpus] == [
        ("amd.com/gpu", True, "H100-NVL"),
    ]
