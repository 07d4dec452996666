"""A gang waits for a node that does not answer, from the first of its nodes that went, and for no other node."""

from __future__ import annotations

import pytest

from cotenant.controller.lifecycle.policies import node_lost
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, exited, observed, pod

SETTINGS = Settings(node_lost_s=60)
TWO = (("n1", 1), ("n2", 1))
PODS = (pod(0, ready=True), pod(1, node="n2", ready=True))


@pytest.mark.parametrize(
    ("unreachable", "deadline"),
    [
        ({}, None),
        ({"n9": T0}, None),
        ({"n2": T0 + 5}, T0 + 65),
        ({"n1": T0 + 20, "n2": T0 + 5}, T0 + 65),
    ],
    ids=["all answer", "a node of others", "one", "the first of two"],
)
def test_the_deadline_counts_from_the_first_node_of_the_gang_that_went(
    unreachable: dict[str, float], deadline: float | None
) -> None:
    o = observed(admitted(Phase.RUNNING, *TWO), *PODS, unreachable_nodes=unreachable)
    assert node_lost.deadline(o, SETTINGS) == deadline


def test_a_node_on_which_the_pod_has_ended_is_not_waited_for() -> None:
    ended = (pod(0, end=exited(0)), pod(1, node="n2", ready=True))
    o = observed(admitted(Phase.RUNNING, *TWO), *ended, unreachable_nodes={"n1": T0})
    assert node_lost.deadline(o, SETTINGS) is None


@pytest.mark.parametrize(("now", "ends"), [(T0 + 59, False), (T0 + 60, True), (T0 + 61, True)])
def test_the_gang_leaves_at_the_deadline_and_names_the_nodes(now: float, ends: bool) -> None:
    o = observed(admitted(Phase.RUNNING, *TWO), *PODS, unreachable_nodes={"n2": T0, "n1": T0 + 30, "n9": T0}, now=now)
    ending = node_lost.ending(o, SETTINGS)
    assert (ending is not None) is ends
    if ending is not None:
        assert (ending.kind, ending.message) == ("NodeLost", "n1, n2 has not answered for 60 s")


def test_a_gpu_that_its_node_wants_drained_ends_the_attempt_with_a_warning() -> None:
    o = observed(admitted(Phase.RUNNING, *TWO), *PODS, sick_gpus={"GPU-n1-0": "Unhealthy"})
    ending = node_lost.sick_gpu_ending(o, SETTINGS)
    assert ending is not None
    assert (ending.kind, ending.warning) == ("GPUUnhealthy", True)


def test_a_gpu_that_an_administrator_takes_out_ends_the_attempt_without_a_warning() -> None:
    o = observed(admitted(Phase.RUNNING, *TWO), *PODS, sick_gpus={"GPU-n1-0": "Drained: its fan | XID48: memory"})
    ending = node_lost.sick_gpu_ending(o, SETTINGS)
    assert ending is not None
    assert (ending.kind, ending.warning) == ("GPUDrained", False)
    assert ending.message == (
        "GPU GPU-n1-0 is taken out of service: Drained: its fan | XID48: memory; the job gets other GPUs"
    )
