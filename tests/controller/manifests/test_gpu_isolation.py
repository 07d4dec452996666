"""What a pod sees of GPUs, and the level that a job is told. Pure."""

from __future__ import annotations

import pytest

from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.manifests.gpu_isolation import NodeIsolation, RuntimePath, isolation_level
from cotenant.controller.manifests.worker_pod import pod
from tests.controller.builders import attempt, placement_on
from tests.controller.manifests.expected import REAL, SETTINGS, SIMULATED


def test_real_gpus_come_by_the_runtime_and_simulated_ones_only_by_name() -> None:
    real, simulated = (pod(attempt(), 0, SETTINGS, path)["spec"] for path in (REAL, SIMULATED))
    uuids = "GPU-n1-0,GPU-n1-1"
    gpu_env = [
        {"name": "CUDA_VISIBLE_DEVICES", "value": uuids},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": uuids},
        {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
    ]
    assert (real["runtimeClassName"], real["containers"][0]["env"][-3:]) == ("nvidia", gpu_env)
    assert ("runtimeClassName" in simulated, simulated["containers"][0]["env"][-1]) == (False, gpu_env[0])


@pytest.mark.parametrize(
    ("nodes", "reached"),
    [
        ([(True, Isolation.HARD)], Isolation.NONE),
        ([(False, Isolation.COOPERATIVE)], Isolation.COOPERATIVE),
        ([(False, Isolation.WATCHED)], Isolation.WATCHED),
        ([(False, Isolation.HARD)], Isolation.WATCHED),
        ([(False, Isolation.WATCHED), (False, Isolation.COOPERATIVE)], Isolation.COOPERATIVE),
        ([(False, Isolation.WATCHED), (True, Isolation.NONE)], Isolation.NONE),
        ([], Isolation.NONE),
    ],
    ids=str,
)
def test_the_level_is_the_weakest_node_and_never_more_than_the_path_gives(
    nodes: list[tuple[bool, Isolation]], reached: Isolation
) -> None:
    assert isolation_level([NodeIsolation(simulated=simulated, best=best) for simulated, best in nodes]) is reached


@pytest.mark.parametrize(
    ("path", "observed", "wrong"),
    [
        (REAL, {"0": ["GPU-n1-0"], "1": ["GPU-n1-1"]}, ""),
        (REAL, {}, ""),
        (REAL, {"0": ["GPU-n1-1"]}, "rank 0 on node n1 sees GPU-n1-1 but was granted GPU-n1-0"),
        (REAL, {"0": ["GPU-n1-0", "GPU-n1-1"], "1": ["GPU-n1-0", "GPU-n1-1"]}, ""),
        (REAL, {"0": ["GPU-n1-0", "GPU-x"]}, "rank 0 on node n1 sees GPU-n1-0, GPU-x but was granted GPU-n1-0"),
        (REAL, {"1": []}, "rank 1 on node n1 sees no GPU but was granted GPU-n1-1"),
        (SIMULATED, {"1": []}, ""),
    ],
    ids=str,
)
def test_what_ranks_see_is_held_against_what_they_were_granted(
    path: RuntimePath, observed: dict[str, list[str]], wrong: str
) -> None:
    assert path.verify(placement_on(("n1", 2)).nodes[0], observed) == wrong
