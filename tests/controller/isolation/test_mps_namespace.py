"""Shares of compute: what the agent's read-back of MPS proves, and what ends the attempt. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.api.resources.gpunodes import DeviceLimit, Dimension, IsolationPath, LimitState
from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.isolation.node_isolation import NodeIsolation
from cotenant.controller.isolation.rendering import rendered
from cotenant.controller.isolation.verification import PodEvidence, Verification, verified
from cotenant.core.model.objects import GrantedGpu, NodePlacement, RankPlacement

NODE = NodeIsolation(
    simulated=False,
    best=Isolation.WATCHED,
    available=frozenset({IsolationPath.RUNTIME_CLASS, IsolationPath.DEVICE_CLAIM, IsolationPath.MPS_NAMESPACE}),
    memory_mib={"GPU-a": 81_920, "GPU-b": 81_920},
)
SHARES = NodePlacement(
    node="n1",
    ranks=tuple(
        RankPlacement(rank=rank, gpus=(GrantedGpu(uuid=uuid, memory_mib=32_768, compute_milli=405),))
        for rank, uuid in enumerate(("GPU-a", "GPU-b"))
    ),
)
META = {"name": "p", "namespace": "team", "labels": {}, "ownerReferences": []}
POD: dict[str, Any] = {"metadata": META, "spec": {"containers": [{"name": "worker", "env": []}]}}
WATCHED = Verification(levels=IsolationLevels(memory=Isolation.WATCHED))
HELD = Verification(levels=IsolationLevels(memory=Isolation.WATCHED, compute=Isolation.HARD))


def limit(uuid: str, state: LimitState = LimitState.IN_FORCE, in_force: int | None = 400) -> DeviceLimit:
    shown = in_force if state is LimitState.IN_FORCE else None
    return DeviceLimit(pod_uid="u", uuid=uuid, dimension=Dimension.COMPUTE, wanted=405, state=state, in_force=shown)


def judged(*limits: DeviceLimit, node: NodeIsolation = NODE) -> Verification:
    return verified(SHARES, node, PodEvidence(limits=limits))


def test_a_pod_is_rendered_as_with_its_claim_alone_which_has_the_share() -> None:
    without = replace(NODE, available=NODE.available - {IsolationPath.MPS_NAMESPACE})
    assert rendered(POD, SHARES, NODE, "nvidia") == rendered(POD, SHARES, without, "nvidia")


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        pytest.param((), WATCHED, id="nothing read back"),
        pytest.param((limit("GPU-a"),), WATCHED, id="one GPU of two"),
        pytest.param((limit("GPU-a"), limit("GPU-b", LimitState.UNKNOWN)), WATCHED, id="one not seen yet"),
        pytest.param((limit("GPU-a"), limit("GPU-b")), HELD, id="every process in its namespace on both"),
        pytest.param(
            (limit("GPU-a"), limit("GPU-b"), limit("GPU-c", in_force=999)), HELD, id="a limit of no GPU of it"
        ),
    ],
)
def test_compute_is_hard_where_it_was_seen_on_every_gpu(limits: tuple[DeviceLimit, ...], want: Verification) -> None:
    assert judged(*limits) == want


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (limit("GPU-b", LimitState.ABSENT), "MPS does not hold this pod to its share of 405 milli-GPU"),
        (limit("GPU-b", in_force=1000), "MPS lets this pod have 1000 milli-GPU, its share is 405"),
        (limit("GPU-b", in_force=395), "MPS lets this pod have 395 milli-GPU, its share is 405"),
    ],
)
def test_a_contradiction_is_a_mismatch_that_names_the_gpu(wrong: DeviceLimit, said: str) -> None:
    assert judged(limit("GPU-a"), wrong) == Verification(mismatch=f"GPU GPU-b of node n1: {said}", node="n1")


def test_a_contradiction_counts_also_where_the_node_has_lost_the_path_since() -> None:
    lowered = replace(NODE, available=frozenset())
    assert judged(limit("GPU-a", LimitState.ABSENT), node=lowered).mismatch
    assert judged(limit("GPU-a"), limit("GPU-b"), node=lowered).levels.compute is Isolation.HARD


def test_nothing_is_claimed_of_simulated_gpus() -> None:
    simulated = replace(NODE, simulated=True)
    assert judged(limit("GPU-a"), limit("GPU-b"), node=simulated).levels == IsolationLevels()


def test_limits_of_memory_say_nothing_of_compute() -> None:
    memory = tuple(limit(uuid).model_copy(update={"dimension": Dimension.MEMORY}) for uuid in ("GPU-a", "GPU-b"))
    assert judged(*memory).levels.compute is Isolation.NONE
