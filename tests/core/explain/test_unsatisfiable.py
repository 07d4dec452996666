"""Requests that no set of nodes of the cluster could ever hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core import schedule
from cotenant.core.model.objects import Job, Node, Topology, TopologyMode
from cotenant.core.model.plan import Reason
from cotenant.testing import make_job, make_node, make_queue, make_snapshot


def test_nodes_without_a_rack_label_are_not_one_rack() -> None:
    plan = schedule(
        make_snapshot(
            nodes=[make_node("n1"), make_node("n2")],
            queues=[make_queue("red", guaranteed=4)],
            jobs=[make_job("a", workers=4, topology=Topology("rack", TopologyMode.REQUIRED))],
        )
    )

    assert plan.verdicts["red/a"].reason == Reason.EXCEEDS_CLUSTER


@pytest.mark.parametrize(
    ("job", "message"),
    [
        pytest.param(
            make_job("a", gpus=4),
            "Needs 4 GPUs; even an empty cluster holds only 0 of 1 such worker:"
            " a worker is on one node and asks for 4 GPUs,"
            " and no node has more than 2 GPUs.",
            id="GPUs",
        ),
        pytest.param(
            make_job("a", cpu_milli=500_000),
            "Needs 1 GPU; even an empty cluster holds only 0 of 1 such worker:"
            " a worker is on one node and asks for 500 CPU,"
            " and no node has more than 64 CPU.",
            id="CPU",
        ),
        pytest.param(
            make_job("a", memory_mib=1024 * 1024),
            "Needs 1 GPU; even an empty cluster holds only 0 of 1 such worker:"
            " a worker is on one node and asks for 1024 GiB"
            " of memory, and no node has more than 512 GiB of memory.",
            id="memory",
        ),
        pytest.param(
            make_job("a", workers=5),
            "Needs 5 workers × 1 GPU; even an empty cluster holds only 4 of 5 such workers.",
            id="too many workers, each of which would fit",
        ),
    ],
)
def test_a_job_that_no_node_could_hold_is_told_what_of_it_is_too_big(job: Job, message: str) -> None:
    plan = schedule(
        make_snapshot(
            nodes=[make_node("n1"), make_node("n2")], queues=[make_queue("red", guaranteed=8, limit=16)], jobs=[job]
        )
    )

    verdict = plan.verdicts["red/a"]
    assert (verdict.reason, verdict.message) == (Reason.EXCEEDS_CLUSTER, message)


@pytest.mark.parametrize(
    ("number", "names"),
    [(1, "n0"), (5, "n0, n1, n2, n3, n4"), (6, "n0, n1, n2, n3, n4 …")],
    ids=["one", "five, all of them", "six, the first five of them"],
)
def test_nodes_that_are_not_ready_and_would_help_are_named(number: int, names: str) -> None:
    down = [make_node(f"n{index}", gpus=1, ready=False) for index in range(number)]

    plan = schedule(
        make_snapshot(
            nodes=[*down, make_node("up", gpus=1)],
            queues=[make_queue("red", guaranteed=1)],
            jobs=[make_job("a", workers=number + 1)],
        )
    )

    verdict = plan.verdicts["red/a"]
    assert verdict.reason == Reason.NODES_NOT_READY
    assert verdict.message == (
        f"Needs {number + 1} workers × 1 GPU; the nodes that are ready hold 1 of {number + 1} workers. "
        f"Not ready: {names}."
    )
    assert dict(verdict.evidence) == {"asked": number + 1, "available": 1, "nodes_not_ready": number}


def refused(nodes: list[Node], job: Job, **queue: Any) -> str:
    plan = schedule(make_snapshot(nodes=nodes, queues=[make_queue("red", **{"guaranteed": 16} | queue)], jobs=[job]))
    verdict = plan.verdicts["red/a"]
    assert verdict.reason == Reason.EXCEEDS_CLUSTER
    return verdict.message


def with_ill_gpu(node: Node) -> Node:
    return replace(node, gpus=(replace(node.gpus[0], healthy=False), *node.gpus[1:]))


def test_gpus_that_are_ill_and_would_help_are_named() -> None:
    node = with_ill_gpu(make_node("n1", gpus=2))
    assert refused([node], make_job("a", workers=2)) == (
        "Needs 2 workers × 1 GPU; even an empty cluster holds only 1 of 2 such workers; it would fit, but 1 GPU is ill"
        f" and not handed out: {node.gpus[0].uuid} on n1."
    )
    assert "ill" not in refused([node], make_job("a", workers=3))


@pytest.mark.parametrize(
    ("resources", "amount"),
    [
        ({"cpu_milli": 40_000}, "40 CPU"),
        ({"memory_mib": 300 * 1024}, "300 GiB of memory"),
        ({"cpu_milli": 40_000, "memory_mib": 300 * 1024}, "40 CPU and 300 GiB of memory"),
    ],
    ids=["CPU", "memory", "both"],
)
def test_where_gpus_are_enough_the_cpu_or_memory_beside_them_is_named(resources: dict[str, Any], amount: str) -> None:
    assert refused([make_node("n1", gpus=2)], make_job("a", workers=2, **resources)) == (
        "Needs 2 workers × 1 GPU; even an empty cluster holds only 1 of 2 such workers: there are GPUs enough, but not"
        f" with {amount} for each worker beside them; ask for less of it."
    )


@pytest.mark.parametrize("listed", [True, False], ids=["the job lists classes", "a quota line names one"])
def test_a_gang_is_not_mixed_of_several_classes_and_says_so(listed: bool) -> None:
    nodes = [make_node("a", gpus=2, gpu_class="A100"), make_node("h", gpus=2)]
    job = make_job("a", workers=4, classes=("A100", "H100") if listed else ())
    queue = make_queue("red", guaranteed=16)
    if not listed:
        queue = replace(queue, quotas=(*queue.quotas, replace(queue.quotas[0], gpu_class="H100")))
    verdict = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[job])).verdicts["red/a"]
    assert verdict.message == (
        f"Needs 4 workers × 1 GPU{' of class A100 or H100' if listed else ''}; even an empty cluster holds only 2 of 4"
        " such workers on GPUs of one class, and a gang is not mixed of several."
    )


def test_a_node_that_is_cordoned_is_named_so() -> None:
    down = replace(make_node("n1", gpus=1, ready=False), unready_because="cordoned")
    plan = schedule(make_snapshot(nodes=[down], queues=[make_queue("red", guaranteed=1)], jobs=[make_job("a")]))
    assert plan.verdicts["red/a"].message.endswith("Not ready: n1 (cordoned).")


def test_the_class_that_holds_most_of_the_gang_decides() -> None:
    nodes = [make_node("a", gpus=1, gpu_class="A100"), make_node("h", gpus=4)]
    job = make_job("gang", workers=4, classes=("A100", "H100"))

    plan = schedule(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=4)], jobs=[job]))

    assert [action.job for action in plan.actions] == ["red/gang"]
