"""Decisions go on from the last one."""

from __future__ import annotations

from cotenant.controller.execution.loop.decisions import Decisions
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue


def test_the_very_same_plan_is_given_until_something_changes() -> None:
    decisions = Decisions(Policy())
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red", guaranteed=1)], [make_job("runs")])
    toy.settle()
    toy.observe(make_job("waits"))
    first = decisions(toy.snapshot())
    toy.now += 100.0
    assert decisions(toy.snapshot()) is first

    toy.end("red/runs")
    snapshot = toy.snapshot()
    assert decisions(snapshot) == schedule(snapshot) != first
