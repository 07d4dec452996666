"""Devices of other makers get into a pod by its request, and by nothing that is NVIDIA's. Pure."""

from __future__ import annotations

from typing import Any

from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.isolation.node_isolation import NodeIsolation, reported_isolation
from cotenant.controller.isolation.verification import PodEvidence, Verification, verified
from cotenant.controller.manifests.attempt import GpuFacts
from cotenant.controller.manifests.worker_pod import pod
from tests.controller.builders import attempt, placement_on
from tests.controller.manifests.expected import SETTINGS

PLACEMENT = placement_on(("n1", 2), memory_mib=0, compute_milli=1000)
RESOURCES = {"GPU-n1-0": "amd.com/gpu", "GPU-n1-1": "amd.com/gpu"}
EVERYTHING = frozenset({"RuntimeClass", "MIG", "MemoryLimit", "DeviceClaim", "ExtendedResource"})


def node(best: Isolation = Isolation.HARD, resources: dict[str, str] | None = None) -> NodeIsolation:
    known = RESOURCES if resources is None else resources
    return NodeIsolation(simulated=False, best=best, available=EVERYTHING, resources=known)


def made(on: NodeIsolation) -> dict[str, Any]:
    return dict(pod(attempt(placement=PLACEMENT), 0, SETTINGS, on).pod["spec"])


def test_the_pod_asks_the_kubelet_for_as_many_devices_as_it_was_granted() -> None:
    resources = made(node())["containers"][0]["resources"]
    assert (resources["requests"]["amd.com/gpu"], resources["limits"]["amd.com/gpu"]) == ("2", "2")
    assert resources["requests"]["memory"]


def test_nothing_that_is_nvidias_is_in_the_pod() -> None:
    spec = made(node())
    names = {entry["name"] for entry in spec["containers"][0]["env"]}
    assert not {name for name in names if name.startswith(("NVIDIA_", "CUDA_"))}
    assert {"runtimeClassName", "resourceClaims"}.isdisjoint(spec)
    assert pod(attempt(placement=PLACEMENT), 0, SETTINGS, node()).side_objects == ()


def test_the_resource_is_known_also_while_the_nodes_agent_is_silent() -> None:
    assert made(reported_isolation(None, RESOURCES)) == made(node())


def test_gpus_without_a_resource_get_into_pods_as_ever() -> None:
    assert made(node(resources={"GPU-n2-0": "amd.com/gpu"})) == made(node(resources={}))
    assert made(node(resources={}))["runtimeClassName"] == "nvidia"


def test_a_container_has_devices_of_its_own_and_more_is_not_claimed() -> None:
    seen = {"0": ["GPU-whatever-rocm-says"]}
    assert verified(PLACEMENT.nodes[0], node(), PodEvidence(seen=seen)) == Verification(
        levels=IsolationLevels(memory=Isolation.COOPERATIVE, compute=Isolation.NONE)
    )
    nothing = verified(PLACEMENT.nodes[0], node(Isolation.NONE), PodEvidence())
    assert nothing.levels == IsolationLevels()


def test_the_launcher_learns_what_its_devices_are() -> None:
    facts = {uuid: GpuFacts(memory_mib=0, simulated=False, resource=name) for uuid, name in RESOURCES.items()}
    spec = pod(attempt(placement=PLACEMENT, gpus=facts), 0, SETTINGS, node()).pod["spec"]
    (contract,) = [one["value"] for one in spec["containers"][0]["env"] if one["name"] == "COTENANT_CONTRACT"]
    assert contract.count('"resource":"amd.com/gpu"') == 2
