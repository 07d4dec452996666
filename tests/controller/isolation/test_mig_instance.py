"""MIG instances: apart by hardware, once the ranks have counted them. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.api.resources.gpunodes import IsolationPath
from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.isolation.node_isolation import NodeIsolation
from cotenant.controller.isolation.verification import PodEvidence, Verification, verified
from cotenant.core.model.objects import NodePlacement
from tests.controller.builders import placement_on

INSTANCES = ("GPU-n1-0", "GPU-n1-1")
NODE = NodeIsolation(
    simulated=False,
    best=Isolation.WATCHED,
    available=frozenset({IsolationPath.RUNTIME_CLASS, IsolationPath.MIG}),
    memory_mib=dict.fromkeys(INSTANCES, 10_240),
    instances=frozenset(INSTANCES),
)
WHOLE = placement_on(("n1", 2), memory_mib=10_240, compute_milli=1000).nodes[0]
SHARE = placement_on(("n1", 2), memory_mib=5_120, compute_milli=500).nodes[0]
SEEN = {"0": ["GPU-n1-0"], "1": ["GPU-n1-1"]}
HARD = Verification(levels=IsolationLevels(memory=Isolation.HARD, compute=Isolation.HARD))
WATCHED = Verification(levels=IsolationLevels(memory=Isolation.WATCHED))


@pytest.mark.parametrize(
    ("node", "placement", "seen", "found"),
    [
        pytest.param(NODE, WHOLE, SEEN, HARD, id="whole instances, counted by their ranks"),
        pytest.param(NODE, WHOLE, {}, WATCHED, id="not counted yet"),
        pytest.param(NODE, WHOLE, {"0": ["GPU-n1-0"]}, WATCHED, id="not by every rank"),
        pytest.param(NODE, SHARE, SEEN, WATCHED, id="shares of an instance are not apart from each other"),
        pytest.param(replace(NODE, instances=frozenset()), WHOLE, SEEN, WATCHED, id="whole GPUs"),
        pytest.param(replace(NODE, instances=frozenset({"GPU-n1-0"})), WHOLE, SEEN, WATCHED, id="one is an instance"),
        pytest.param(replace(NODE, simulated=True), WHOLE, SEEN, Verification(), id="simulated"),
    ],
)
def test_an_instance_is_hard_in_both_dimensions(
    node: NodeIsolation, placement: NodePlacement, seen: dict[str, list[str]], found: Verification
) -> None:
    assert verified(placement, node, PodEvidence(seen=seen)) == found


def test_a_rank_that_sees_another_instance_is_a_mismatch() -> None:
    found = verified(WHOLE, NODE, PodEvidence(seen=SEEN | {"1": ["MIG-x"]}))
    assert found.mismatch == "rank 1 on node n1 sees MIG-x but was granted GPU-n1-1"
