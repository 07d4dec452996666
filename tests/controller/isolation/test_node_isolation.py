"""What a node's report gives its pods, and what several of them amount to. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_gpunode
from cotenant.api.resources.gpunodes import DeviceLimit, Dimension, GPUNode, IsolationPath, LimitState
from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.isolation.node_isolation import NodeIsolation, reported_isolation
from cotenant.controller.isolation.rendering import rendered
from cotenant.controller.isolation.verification import PodEvidence, evidence_of, verified, verified_together
from tests.controller.builders import placement_on, pod_document
from tests.controller.isolation.test_device_claim import placed

SEEN = {"0": ["GPU-n1-0"]}


def reported(**status: Any) -> GPUNode:
    gpu = {"uuid": "GPU-a", "index": 0, "class": "H100", "memoryMiB": 81_920}
    return parse_gpunode(
        {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "GPUNode",
            "metadata": {"name": "n1"},
            "status": {"isolation": "Watched", "gpus": [gpu], **status},
        }
    )


EVERY_PATH = (
    (),
    (IsolationPath.RUNTIME_CLASS, IsolationPath.MEMORY_LIMIT),
    (IsolationPath.DEVICE_PLUGIN,),
    (IsolationPath.DEVICE_CLAIM,),
    (IsolationPath.DEVICE_CLAIM, IsolationPath.MPS_NAMESPACE, IsolationPath.MEMORY_LIMIT),
)


@pytest.mark.parametrize("paths", EVERY_PATH, ids=" ".join)
def test_shares_of_two_gpus_of_one_worker_are_held_as_those_of_two_workers(paths: tuple[IsolationPath, ...]) -> None:
    """Whatever the node has of it: the pod asks for both GPUs, by their names, with the amount of each."""
    memory = {"GPU-a": 81_920, "GPU-b": 40_960}
    node = NodeIsolation(simulated=False, best=Isolation.WATCHED, available=frozenset(paths), memory_mib=memory)
    on_a, on_b = ("GPU-a", 40_960, 500), ("GPU-b", 20_480, 500)
    one, two = (
        rendered(pod_document(), placement, node, "nvidia")
        for placement in (placed((on_a, on_b)), placed((on_a,), (on_b,)))
    )
    assert one == two
    assert all(uuid.lower() in str(one).lower() for uuid in memory)
    both = {"0": ["GPU-a", "GPU-b"]}
    assert not verified(placed((on_a, on_b)), node, PodEvidence(seen=both)).mismatch
    assert verified(placed((on_a, on_b)), node, PodEvidence(seen={"0": ["GPU-a"]})).mismatch


def test_a_path_counts_when_it_is_available_and_one_that_nobody_knows_is_no_harm() -> None:
    paths = [
        {"path": "RuntimeClass", "available": True},
        {"path": "MemoryLimit", "available": False, "reason": "driver 580 is older than 615"},
        {"path": "OfTomorrow", "available": True},
    ]
    assert reported_isolation(reported(capabilities={"paths": paths}), {}) == NodeIsolation(
        simulated=False,
        best=Isolation.WATCHED,
        available=frozenset({"RuntimeClass", "OfTomorrow"}),
        memory_mib={"GPU-a": 81_920},
    )


def test_the_report_of_an_agent_that_knows_no_paths_is_read_as_ever() -> None:
    known = reported_isolation(reported(capabilities={"runtimeClass": True, "dmem": True}), {})
    assert known.available == frozenset()


def test_a_node_without_an_agent_has_gpus_that_nobody_watches() -> None:
    assert reported_isolation(None, {}) == NodeIsolation(simulated=False, best=Isolation.COOPERATIVE)


def test_the_limits_of_other_pods_are_no_evidence() -> None:
    limits = [
        {"podUID": uid, "uuid": "GPU-a", "dimension": "Memory", "wanted": 9, "state": "InForce", "inForce": 9}
        for uid in ("mine", "theirs")
    ]
    node = reported(limits=limits)
    own = DeviceLimit(
        pod_uid="mine", uuid="GPU-a", dimension=Dimension.MEMORY, wanted=9, state=LimitState.IN_FORCE, in_force=9
    )
    assert evidence_of(node, "mine", SEEN) == PodEvidence(seen=SEEN, limits=(own,))
    assert evidence_of(node, "", SEEN) == PodEvidence(seen=SEEN)
    assert evidence_of(None, "mine", {}) == PodEvidence()


@pytest.mark.parametrize(
    ("best", "levels"),
    [
        ([], Isolation.NONE),
        ([Isolation.WATCHED], Isolation.WATCHED),
        ([Isolation.WATCHED, Isolation.COOPERATIVE], Isolation.COOPERATIVE),
    ],
    ids=str,
)
def test_the_weakest_node_is_the_level(best: list[Isolation], levels: Isolation) -> None:
    nodes = placement_on(*((f"n{i}", 1) for i in range(len(best)))).nodes
    isolation = [NodeIsolation(simulated=False, best=one) for one in best]
    found = verified_together(verified(*one, PodEvidence()) for one in zip(nodes, isolation, strict=True))
    assert found.levels == IsolationLevels(memory=levels)


def test_one_contradiction_is_that_of_the_whole_placement() -> None:
    isolation = NodeIsolation(simulated=False, best=Isolation.WATCHED)
    nodes = placement_on(("n1", 1), ("n2", 1)).nodes
    seen = PodEvidence(seen={"0": ["GPU-n1-0"], "1": ["GPU-n1-0"]})
    found = verified_together(verified(node, isolation, seen) for node in nodes)
    assert (found.node, found.mismatch) == ("n2", "rank 1 on node n2 sees GPU-n1-0 but was granted GPU-n2-0")


def test_where_claims_are_switched_off_no_pod_gets_one_whatever_its_node_still_offers() -> None:
    offered = (IsolationPath.RUNTIME_CLASS, IsolationPath.DEVICE_CLAIM, IsolationPath.MPS_NAMESPACE)
    offering = reported(capabilities={"paths": [{"path": one, "available": True} for one in offered]})
    assert reported_isolation(offering, {}, claims=False).available == {IsolationPath.RUNTIME_CLASS}
