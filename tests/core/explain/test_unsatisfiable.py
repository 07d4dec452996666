"""Requests that the nodes of the cluster could never hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.model.objects import GpuRequest, Job, Node, Spread, Topology, TopologyMode
from cotenant.core.model.plan import Reason
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import make_job, make_node, make_queue, make_snapshot


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
            make_job("a", workers=2, cpu_milli=1_000, chief_cpu_milli=90_000),
            "Needs 2 workers × 1 GPU; even an empty cluster holds only 0 of 2 such workers:"
            " the chief is on one node and asks for 90 CPU,"
            " and no node has more than 64 CPU.",
            id="CPU of the chief",
        ),
        pytest.param(
            make_job("a", memory_mib=1024 * 1024),
            "Needs 1 GPU; even an empty cluster holds only 0 of 1 such worker:"
            " a worker is on one node and asks for 1024 GiB"
            " of memory, and no node has more than 512 GiB of memory.",
            id="memory",
        ),
        pytest.param(
            make_job("a", memory_mib=512 * 1024 + 768, added_memory_mib=768),
            "Needs 1 GPU; even an empty cluster holds only 0 of 1 such worker:"
            " a worker is on one node and asks for 512 GiB of memory,"
            " to which 768 MiB for Cotenant's launcher are added, and no node has more than 512 GiB of memory.",
            id="memory with that of the launcher",
        ),
        pytest.param(
            make_job("a", workers=3, spread=Spread("node", TopologyMode.REQUIRED)),
            "Needs 3 workers × 1 GPU; even an empty cluster holds only 2 of 3 such workers"
            " with at most 1 worker on one node.",
            id="more nodes than there are",
        ),
        pytest.param(
            make_job("a", workers=5),
            "Needs 5 workers × 1 GPU; even an empty cluster holds only 4 of 5 such workers.",
            id="too many workers, each of which would fit",
        ),
    ],
)
def test_for_a_job_too_big_for_any_node_the_amount_that_is_too_big_is_named(job: Job, message: str) -> None:
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


def test_a_gpu_that_its_agent_lists_no_more_is_told_as_such() -> None:
    node = make_node("n1", gpus=2)
    missing = replace(node.gpus[0], healthy=False, missing_since=0.0)
    gone = replace(node, gpus=(missing, *node.gpus[1:]))
    said = refused([gone], make_job("a", workers=2))
    assert said.endswith(f"1 GPU is not handed out (no longer listed by the agent of the node): {missing.uuid} on n1.")
    both = refused([gone, with_ill_gpu(make_node("n2", gpus=1))], make_job("a", workers=3))
    assert "(unhealthy, or in use by a process outside Cotenant, or no longer listed by the agent of the node)" in both
    deleted = refused([replace(gone, deleted=True, ready=False)], make_job("a", workers=2))
    assert deleted.endswith(f"1 GPU is not handed out (the node was deleted): {missing.uuid} on n1.")


@pytest.mark.parametrize(
    ("asked_mib", "has_mib", "said"),
    [
        (80 * 1024, 81_559, "needs 80 GiB of a GPU, more than one GPU has: class H100 has 79.6 GiB."),
        (81_560, 81_559, "needs 81560 MiB of a GPU, more than one GPU has: class H100 has 81559 MiB."),
        (90_000, 80 * 1024, "needs 90000 MiB of a GPU, more than one GPU has: class H100 has 81920 MiB."),
    ],
)
def test_what_a_gpu_has_is_told_in_the_unit_of_what_is_asked_for(asked_mib: int, has_mib: int, said: str) -> None:
    node = make_node("n1", memory_mib=has_mib)
    assert refused([node], make_job("a", gpu=GpuRequest(memory_mib=asked_mib))).endswith(said)


def test_what_a_node_has_is_told_in_the_unit_of_what_is_asked_for() -> None:
    node = replace(make_node("n1"), memory_mib=515_743)
    said = refused([node], make_job("a", memory_mib=1024 * 1024))
    assert said.endswith("asks for 1024 GiB of memory, and no node has more than 503.6 GiB of memory.")


def test_gpus_that_are_not_handed_out_and_would_help_are_named() -> None:
    node = with_ill_gpu(make_node("n1", gpus=2))
    assert refused([node], make_job("a", workers=2)) == (
        "Needs 2 workers × 1 GPU; even an empty cluster holds only 1 of 2 such workers; it would fit, but 1 GPU is"
        f" not handed out (unhealthy, or in use by a process outside Cotenant): {node.gpus[0].uuid} on n1."
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
def test_if_gpus_suffice_the_missing_cpu_or_memory_is_named(resources: dict[str, Any], amount: str) -> None:
    assert refused([make_node("n1", gpus=2)], make_job("a", workers=2, **resources)) == (
        "Needs 2 workers × 1 GPU; even an empty cluster holds only 1 of 2 such workers: there are enough GPUs, but"
        f" their nodes do not have {amount} for each worker; ask for less."
    )


def test_if_gpus_suffice_the_amounts_of_the_chief_are_named() -> None:
    job = make_job("a", workers=2, cpu_milli=20_000, chief_cpu_milli=60_000)
    assert refused([make_node("n1", gpus=2)], job) == (
        "Needs 2 workers × 1 GPU; even an empty cluster holds only 1 of 2 such workers: there are enough GPUs, but"
        " their nodes do not have 20 CPU for each worker, and 60 CPU and 0 MiB of memory for the chief; ask for less."
    )


@pytest.mark.parametrize("listed", [True, False], ids=["the job lists classes", "a quota line names one"])
def test_the_message_says_that_a_gang_is_not_mixed_from_several_classes(listed: bool) -> None:
    nodes = [make_node("a", gpus=2, gpu_class="A100"), make_node("h", gpus=2)]
    job = make_job("a", workers=4, classes=("A100", "H100") if listed else ())
    queue = make_queue("red", guaranteed=16)
    if not listed:
        queue = replace(queue, quotas=(*queue.quotas, replace(queue.quotas[0], gpu_class="H100")))
    verdict = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[job])).verdicts["red/a"]
    assert verdict.message == (
        f"Needs 4 workers × 1 GPU{' of class A100 or H100' if listed else ''}; even an empty cluster holds only 2 of 4"
        " such workers on GPUs of one class, and a gang does not mix classes."
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


EAST = make_node("n1", zone="east")
AMD = make_node("m1", gpu_class="MI300X", memory_mib=196_608, resource="amd.com/gpu")
INTEL = make_node("g1", gpu_class="Gaudi3", memory_mib=131_072, resource="habana.ai/gaudi")
SMALL = make_node("a1", gpu_class="A100", memory_mib=40_960)


@pytest.mark.parametrize(
    ("nodes", "job", "reason", "message"),
    [
        pytest.param(
            [EAST, make_node("n2", zone="west")], make_job("a", zones=("moon", "mars")), Reason.ZONE_NOT_FOUND,
            "No node is in zone moon or mars; there is east, west.", id="a zone that is not there",
        ),
        pytest.param(
            [make_node("n1")], make_job("a", zones=("moon",)), Reason.ZONE_NOT_FOUND,
            "No node is in zone moon; there is no zone at all.", id="a zone where there are none",
        ),
        pytest.param(
            [AMD, INTEL], make_job("a"), Reason.CLASS_NOT_FOUND,
            "This cluster has devices of several makers and no CUDA GPU: name the class that the program is written"
            " for (spec.gpu.classes); there is Gaudi3, MI300X.", id="any device where there are several kinds",
        ),
        pytest.param(
            [AMD], make_job("a", milli=500, classes=("MI300X",)), Reason.CLASS_NOT_SHARED,
            "One worker needs 0.5 GPU, and class MI300X is not shared: ask for whole devices (spec.gpu.count).",
            id="a share of what is not shared",
        ),
        pytest.param(
            [EAST, SMALL], make_job("a", gpu=GpuRequest(memory_mib=102_400)), Reason.EXCEEDS_CLUSTER,
            "One worker needs 100 GiB of a GPU, more than one GPU has: class H100 has 80 GiB.",
            id="more memory than the largest GPU has",
        ),
        pytest.param(
            [make_node("n1", rack="r1"), make_node("n2", rack="r2")],
            make_job("a", workers=3, topology=Topology("rack", TopologyMode.REQUIRED)), Reason.EXCEEDS_CLUSTER,
            "Needs 3 workers × 1 GPU; even an empty cluster holds only 2 of 3 such workers inside one rack.",
            id="more than one rack has",
        ),
        pytest.param(
            [EAST, SMALL], make_job("a", workers=5), Reason.EXCEEDS_CLUSTER,
            "Needs 5 workers × 1 GPU; even an empty cluster holds only 4 of 5 such workers.",
            id="more than all classes have together, where they may be mixed",
        ),
    ],
)  # fmt: skip
def test_an_amount_that_no_node_has_is_named_with_the_largest_there_is(
    nodes: list[Node], job: Job, reason: Reason, message: str
) -> None:
    queue = make_queue("red", guaranteed=16)
    verdict = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[job])).verdicts["red/a"]
    assert (verdict.reason, verdict.message) == (reason, message)


@pytest.mark.parametrize(
    ("nodes", "job"),
    [
        pytest.param([EAST, SMALL], make_job("a", gpu=GpuRequest(memory_mib=51_200)), id="one class is large enough"),
        pytest.param([AMD, INTEL], make_job("a", classes=("Gaudi3",)), id="one of two kinds is named"),
    ],
)
def test_one_class_that_suffices_is_enough(nodes: list[Node], job: Job) -> None:
    plan = schedule(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=16)], jobs=[job]))
    assert [action.job for action in plan.actions] == ["red/a"]


@pytest.mark.parametrize(("number", "more"), [(3, ""), (4, " …")])
def test_at_most_three_unhealthy_gpus_are_named(number: int, more: str) -> None:
    nodes = [with_ill_gpu(make_node(f"n{index}", gpus=1)) for index in range(number)]
    named = ", ".join(f"GPU-n{index}-0 on n{index}" for index in range(3))
    message = refused([*nodes, make_node("up", gpus=1)], make_job("a", workers=number + 1))
    assert message.endswith(
        f"{number} GPUs are not handed out (unhealthy, or in use by a process outside Cotenant): {named}{more}."
    )
