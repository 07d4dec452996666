"""Path A: what a pod sees of GPUs, and what it is held to. Pure."""

from __future__ import annotations

import pytest

from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.isolation.node_isolation import NodeIsolation
from cotenant.controller.isolation.verification import PodEvidence, Verification, verified
from cotenant.controller.manifests.worker_pod import pod
from tests.controller.builders import attempt, placement_on
from tests.controller.manifests.expected import REAL, SETTINGS, SIMULATED

PLACEMENT = placement_on(("n1", 2)).nodes[0]


def node(best: Isolation = Isolation.WATCHED, *, simulated: bool = False) -> NodeIsolation:
    return NodeIsolation(simulated=simulated, best=best)


def test_real_gpus_come_by_the_runtime_and_simulated_ones_only_by_name() -> None:
    real, simulated = (pod(attempt(), 0, SETTINGS, node).pod["spec"] for node in (REAL, SIMULATED))
    uuids = "GPU-n1-0,GPU-n1-1"
    gpu_env = [
        {"name": "CUDA_VISIBLE_DEVICES", "value": uuids},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": uuids},
        {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
    ]
    assert (real["runtimeClassName"], real["containers"][0]["env"][-3:]) == ("nvidia", gpu_env)
    assert ("runtimeClassName" in simulated, simulated["containers"][0]["env"][-1]) == (False, gpu_env[0])


@pytest.mark.parametrize(
    ("simulated", "best", "reached"),
    [
        (True, Isolation.HARD, Isolation.NONE),
        (False, Isolation.NONE, Isolation.NONE),
        (False, Isolation.COOPERATIVE, Isolation.COOPERATIVE),
        (False, Isolation.WATCHED, Isolation.WATCHED),
        (False, Isolation.HARD, Isolation.WATCHED),
    ],
    ids=str,
)
def test_memory_is_watched_at_best_and_compute_is_not_held_at_all(
    simulated: bool, best: Isolation, reached: Isolation
) -> None:
    found = verified(PLACEMENT, node(best, simulated=simulated), PodEvidence())
    assert found == Verification(levels=IsolationLevels(memory=reached, compute=Isolation.NONE))


def test_nothing_is_watched_on_a_gpu_of_unknown_memory() -> None:
    placement = placement_on(("n1", 1), memory_mib=0, compute_milli=1000).nodes[0]
    found = verified(placement, node(), PodEvidence())
    assert found.levels.memory is Isolation.NONE


@pytest.mark.parametrize(
    ("simulated", "observed", "wrong"),
    [
        (False, {"0": ["GPU-n1-0"], "1": ["GPU-n1-1"]}, ""),
        (False, {}, ""),
        (False, {"0": ["GPU-n1-1"]}, "rank 0 on node n1 sees GPU-n1-1 but was granted GPU-n1-0"),
        (False, {"0": ["GPU-n1-0", "GPU-n1-1"], "1": ["GPU-n1-0", "GPU-n1-1"]}, ""),
        (False, {"0": ["GPU-n1-0", "GPU-x"]}, "rank 0 on node n1 sees GPU-n1-0, GPU-x but was granted GPU-n1-0"),
        (False, {"1": []}, "rank 1 on node n1 sees no GPU but was granted GPU-n1-1"),
        (True, {"1": []}, ""),
    ],
    ids=str,
)
def test_what_ranks_see_is_held_against_what_they_were_granted(
    simulated: bool, observed: dict[str, list[str]], wrong: str
) -> None:
    found = verified(PLACEMENT, node(simulated=simulated), PodEvidence(seen=observed))
    assert (found.mismatch, found.node) == (wrong, "n1" if wrong else None)
