"""Pods are a dimension of a node, beside CPU and memory: a job has one on each of its nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core import schedule
from cotenant.core.allocation.allocation import allocation_of
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Node
from cotenant.core.model.plan import Admit, Plan
from cotenant.core.quota.tree import QueueTree
from cotenant.testing import make_job, make_node, make_placement, make_queue, make_snapshot
from tests.core.worlds.held_amounts import same_ledger

SMALL, LARGE = make_node("n1", gpus=1), make_node("n2", gpus=4)


def plan_of(*nodes: Node, jobs: int = 1) -> Plan:
    waiting = [make_job(f"job-{number}", queue="red", gpus=1, at=float(number)) for number in range(jobs)]
    return schedule(make_snapshot(nodes=list(nodes), queues=[make_queue("red", guaranteed=8)], jobs=waiting))


def started(plan: Plan) -> list[str]:
    return [one.placement.nodes[0].node for one in plan.actions if isinstance(one, Admit)]


def test_a_node_that_takes_no_more_pods_is_passed_over() -> None:
    assert started(plan_of(SMALL, LARGE)) == ["n1"]
    assert started(plan_of(replace(SMALL, pods=0), LARGE)) == ["n2"]


@pytest.mark.parametrize(("pods", "starts"), [(0, 0), (1, 1), (3, 3), (9, 4)])
def test_each_job_takes_one_pod_of_its_node(pods: int, starts: int) -> None:
    assert len(started(plan_of(replace(LARGE, pods=pods), jobs=4))) == starts


def test_all_ranks_of_a_job_on_a_node_are_one_pod() -> None:
    job = make_job("gang", queue="red", workers=4, gpus=1)
    queues = [make_queue("red", guaranteed=8)]
    plan = schedule(make_snapshot(nodes=[replace(LARGE, pods=1)], queues=queues, jobs=[job]))
    assert started(plan) == ["n2"]


def test_the_verdict_names_the_node_that_takes_no_more_pods() -> None:
    lies = replace(make_job("lies", queue="red", placement=make_placement(("n1", [[0]]))), admitted_at=0.0)
    jobs = [lies, make_job("waits", queue="red", gpus=1, at=1.0)]
    nodes = [SMALL, replace(LARGE, pods=0)]
    plan = schedule(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=8)], jobs=jobs))
    assert plan.verdicts["red/waits"].message.endswith("; n2 takes no more pods.")


def test_a_cluster_whose_nodes_are_full_of_pods_says_so() -> None:
    (verdict,) = plan_of(replace(LARGE, pods=0)).verdicts.values()
    assert "the nodes take no more pods" in verdict.message


def test_a_job_that_leaves_gives_its_pod_back() -> None:
    ledger = Ledger.of([replace(LARGE, pods=2)])
    before = ledger.copy()
    job = make_job("lies", gpus=1, placement=make_placement(("n2", [[0]])))
    snapshot = make_snapshot(nodes=[replace(LARGE, pods=2)], queues=[make_queue("red", guaranteed=8)], jobs=[job])
    assert job.placement is not None
    (node,) = allocation_of(job, job.placement, ledger.inventory, QueueTree.of(snapshot.queues, ledger.inventory)).nodes
    ledger.allocate(node)
    assert ledger.free_pods.tolist() == [1]
    ledger.release(node)
    assert same_ledger(ledger, before)
