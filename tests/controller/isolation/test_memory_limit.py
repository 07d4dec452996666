"""Path A+: which pods ask for a limit of the driver, and what its read-back proves. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.api.resources.gpunodes import DeviceLimit, Dimension, IsolationPath, LimitState
from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.isolation.node_isolation import NodeIsolation
from cotenant.controller.isolation.rendering import rendered
from cotenant.controller.isolation.verification import PodEvidence, Verification, verified
from cotenant.core.model.objects import GrantedGpu, NodePlacement, RankPlacement
from tests.controller.builders import placement_on

CAPABLE = NodeIsolation(
    simulated=False,
    best=Isolation.WATCHED,
    available=frozenset({IsolationPath.RUNTIME_CLASS, IsolationPath.MEMORY_LIMIT}),
    memory_mib={"GPU-n1-0": 81_920, "GPU-n1-1": 81_920},
)
UNABLE = replace(CAPABLE, available=frozenset({IsolationPath.RUNTIME_CLASS}))
TWO_SHARES = placement_on(("n1", 2)).nodes[0]
POD: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "worker", "env": []}]}}
WATCHED = Verification(levels=IsolationLevels(memory=Isolation.WATCHED))
HARD = Verification(levels=IsolationLevels(memory=Isolation.HARD))


def on(*grants: tuple[int, str, int]) -> NodePlacement:
    """(rank, GPU, MiB)"""
    ranks: dict[int, list[GrantedGpu]] = {}
    for rank, uuid, mib in grants:
        ranks.setdefault(rank, []).append(GrantedGpu(uuid=uuid, memory_mib=mib, compute_milli=400))
    return NodePlacement(node="n1", ranks=tuple(RankPlacement(rank=r, gpus=tuple(g)) for r, g in ranks.items()))


def asked(placement: NodePlacement, node: NodeIsolation = CAPABLE) -> dict[str, str]:
    env = rendered(POD, placement, node, "nvidia").pod["spec"]["containers"][0]["env"]
    return {one["name"]: one["value"] for one in env if one["name"].startswith("NVIDIA_GPU_MEMORY")}


def limit(index: int, in_force: int | None, state: LimitState = LimitState.IN_FORCE) -> DeviceLimit:
    return DeviceLimit(
        pod_uid="u", uuid=f"GPU-n1-{index}", dimension=Dimension.MEMORY, wanted=32_768, state=state, in_force=in_force
    )


@pytest.mark.parametrize(
    ("placement", "mib"),
    [
        pytest.param(TWO_SHARES, 32_768, id="equal shares of two GPUs"),
        pytest.param(on((0, "GPU-n1-0", 30_000)), 30_000, id="one share"),
        pytest.param(on((0, "GPU-n1-0", 20_000), (1, "GPU-n1-0", 20_000)), 40_000, id="two ranks share one GPU"),
        pytest.param(on((0, "GPU-n1-0", 20_000), (1, "GPU-n1-1", 30_000)), None, id="shares of different sizes"),
        pytest.param(on((0, "GPU-n1-0", 81_920), (1, "GPU-n1-1", 81_920)), None, id="whole GPUs, nobody else is there"),
        pytest.param(on((0, "GPU-n1-0", 81_920), (1, "GPU-n1-1", 40_960)), None, id="one of them whole"),
        pytest.param(on((0, "GPU-unlisted", 30_000)), None, id="a GPU of which the agent says nothing"),
    ],
)
def test_both_variables_or_none_and_one_limit_for_all_gpus_of_the_container(
    placement: NodePlacement, mib: int | None
) -> None:
    both = {} if mib is None else {"NVIDIA_GPU_MEMORY_REQUEST": "1", "NVIDIA_GPU_MEMORY_LIMIT": str(mib)}
    assert asked(placement) == both


def test_a_node_that_cannot_is_not_asked() -> None:
    assert asked(TWO_SHARES, UNABLE) == {}


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        pytest.param((), WATCHED, id="nothing was read back"),
        pytest.param((limit(0, 32_768), limit(1, 32_768)), HARD, id="every GPU has its limit"),
        pytest.param((limit(0, 32_767), limit(1, 32_769)), HARD, id="rounded to a page"),
        pytest.param((limit(0, 32_768),), WATCHED, id="one GPU is not reported"),
        pytest.param((limit(0, 32_768), limit(1, None, LimitState.UNKNOWN)), WATCHED, id="one cannot be read"),
        pytest.param(
            (limit(0, 32_768), limit(1, None, LimitState.ABSENT)),
            Verification(
                mismatch="GPU GPU-n1-1 of node n1: the driver has no memory limit for this pod, its share is 32768 MiB",
                node="n1",
            ),
            id="the hook was not there, or set the limit of another GPU",
        ),
        *(
            pytest.param(
                (limit(0, wrong), limit(1, 32_768)),
                Verification(
                    mismatch=(
                        f"GPU GPU-n1-0 of node n1: the driver limits this pod to {wrong} MiB, its share is 32768 MiB"
                    ),
                    node="n1",
                ),
                id=f"a limit of {wrong}",
            )
            for wrong in (65_536, 32_770, 32_766, 0)
        ),
    ],
)
@pytest.mark.parametrize("node", [CAPABLE, UNABLE], ids=["capable", "no longer capable"])
def test_hard_is_claimed_on_the_limits_in_force_alone(
    node: NodeIsolation, limits: tuple[DeviceLimit, ...], found: Verification
) -> None:
    assert verified(TWO_SHARES, node, PodEvidence(limits=limits)) == found


def test_a_limit_of_compute_says_nothing_of_memory() -> None:
    compute = tuple(limit(i, 400).model_copy(update={"dimension": Dimension.COMPUTE}) for i in (0, 1))
    assert verified(TWO_SHARES, CAPABLE, PodEvidence(limits=compute)).levels.memory == Isolation.WATCHED


def test_simulated_gpus_are_never_hard() -> None:
    simulated = replace(CAPABLE, simulated=True)
    evidence = PodEvidence(limits=(limit(0, 32_768), limit(1, 32_768)))
    assert verified(TWO_SHARES, simulated, evidence).levels == IsolationLevels()


def test_other_gpus_than_granted_outweigh_every_limit() -> None:
    evidence = PodEvidence(seen={"0": ["GPU-x"]}, limits=(limit(0, 32_768), limit(1, 32_768)))
    assert "sees GPU-x" in verified(TWO_SHARES, CAPABLE, evidence).mismatch


@given(st.lists(st.tuples(st.sampled_from(LimitState), st.integers(0, 70_000)), max_size=2))
def test_whatever_is_reported_hard_means_that_no_gpu_lacks_its_limit(reported: list[tuple[LimitState, int]]) -> None:
    limits = tuple(
        limit(i, mib if state is LimitState.IN_FORCE else None, state) for i, (state, mib) in enumerate(reported)
    )
    found = verified(TWO_SHARES, CAPABLE, PodEvidence(limits=limits))
    enforced = [one for one in limits if one.state is LimitState.IN_FORCE and abs((one.in_force or 0) - 32_768) < 2]
    assert (found.levels.memory is Isolation.HARD) == (len(enforced) == 2)
