"""Pods and scratch space are dimensions of a node, beside CPU and memory: a job has one pod on each of its nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.allocation.allocation import allocation_of
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Job, Node
from cotenant.core.model.plan import Admit, Plan, Reason
from cotenant.core.quota.tree import QueueTree
from cotenant.core.scheduling.scheduler import schedule
from tests.core.worlds.held_amounts import same_ledger
from tests.core.worlds.recount import check_nothing_is_overcommitted
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot

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


GIB = 1024


def disks(**gib: int) -> list[Node]:
    """Nodes of four GPUs with so much scratch space."""
    return [make_node(name, gpus=4, scratch_mib=amount * GIB) for name, amount in gib.items()]


def asking(name: str, gib: int, **changes: Any) -> Job:
    return make_job(name, scratch_mib=gib * GIB, **changes)


@pytest.mark.parametrize(
    ("nodes", "jobs", "placed"),
    [
        pytest.param(disks(n1=100, n2=500), [asking("a", 200)], {"a": [("n2", 1)]}, id="on the node that has it"),
        pytest.param(disks(n1=300), [asking("a", 200), asking("b", 200, at=1.0)], {"a": [("n1", 1)]}, id="once"),
        pytest.param(disks(n1=400), [asking("a", 200), asking("b", 200, at=1.0)],
                     {"a": [("n1", 1)], "b": [("n1", 1)]}, id="exactly"),
        pytest.param(disks(n1=500, n2=500), [asking("a", 200, workers=4)], {"a": [("n1", 2), ("n2", 2)]},
                     id="for each worker"),
        pytest.param(disks(n1=200, n2=500), [asking("a", 100, workers=5, chief_scratch_mib=300 * GIB)],
                     {"a": [("n2", 3), ("n1", 2)]}, id="more for the chief"),
        pytest.param(disks(n1=0), [asking("a", 0)], {"a": [("n1", 1)]}, id="none, if a job asks for none"),
    ],
)  # fmt: skip
def test_a_job_lies_where_its_scratch_space_is(
    nodes: list[Node], jobs: list[Job], placed: dict[str, list[tuple[str, int]]]
) -> None:
    queue = make_queue("red", guaranteed=8)
    plan = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=jobs))
    found = {one.job: one.placement for one in plan.actions if isinstance(one, Admit)}
    shown = {key: [(part.node, len(part.ranks)) for part in placement.nodes] for key, placement in found.items()}
    assert shown == {f"red/{name}": parts for name, parts in placed.items()}
    check_nothing_is_overcommitted(nodes, [queue], [replace(job, placement=found.get(job.key)) for job in jobs])


def test_scratch_space_of_a_job_that_has_ended_is_free_again() -> None:
    toy = ToyCluster(disks(n1=300), [make_queue("red", guaranteed=8)], [asking("a", 200), asking("b", 200, at=1.0)])
    toy.settle()
    assert toy.jobs["red/b"].placement is None
    toy.end("red/a")
    toy.settle()
    assert toy.jobs["red/b"].placement is not None


def test_scratch_space_that_no_node_has_is_named() -> None:
    plan = schedule(
        make_snapshot(nodes=disks(n1=100), queues=[make_queue("red", guaranteed=8)], jobs=[asking("a", 200)])
    )
    verdict = plan.verdicts["red/a"]
    assert (verdict.reason, verdict.message) == (
        Reason.EXCEEDS_CLUSTER,
        "Needs 1 GPU; even an empty cluster holds only 0 of 1 such worker: a worker is on one node and asks for"
        " 200 GiB of scratch space, and no node has more than 100 GiB of scratch space.",
    )


def test_scratch_space_that_a_gang_has_too_little_of_is_named() -> None:
    job = asking("a", 200, workers=4, cpu_milli=1_000, memory_mib=1024)
    plan = schedule(make_snapshot(nodes=disks(n1=500), queues=[make_queue("red", guaranteed=8)], jobs=[job]))
    assert plan.verdicts["red/a"].message.endswith(
        ": there are enough GPUs, but their nodes do not have 200 GiB of scratch space for each worker; ask for less."
    )


def test_scratch_space_that_others_use_is_named_with_what_would_start_the_job() -> None:
    lies = asking("lies", 200, placement=make_placement(("n1", [[0]])), admitted_at=0.0)
    jobs = [lies, asking("waits", 200, at=1.0, cpu_milli=1_000, memory_mib=1024)]
    plan = schedule(make_snapshot(nodes=disks(n1=300), queues=[make_queue("red", guaranteed=8)], jobs=jobs))
    verdict = plan.verdicts["red/waits"]
    assert verdict.reason is Reason.WAITING_FOR_CPU_OR_MEMORY
    assert verdict.message.endswith(
        "their nodes lack CPU, memory or scratch space (one worker asks for 1 CPU, 1 GiB of memory and 200 GiB of"
        " scratch space)."
    )
    assert dict(verdict.evidence)["scratch_mib"] == 200 * GIB
    assert verdict.would_start_if == "a worker asked for at most 100 GiB of scratch space"
