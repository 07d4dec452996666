"""Reasons to wait: how the GPUs stand, and which limit is used up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core import schedule
from cotenant.core.explain.pending_reason import waiting_for_eviction
from cotenant.core.model.objects import GpuRequest, Job, Quota, Sharing, Topology, TopologyMode
from cotenant.core.model.plan import Reason, Refusal, Verdict
from cotenant.testing import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot

RED = make_queue("red", guaranteed=8, limit=8)


def test_a_share_that_does_not_fit_is_told_how_the_gpus_stand() -> None:
    jobs = [make_job(f"j{index}", queue="red", milli=400, workers=2, at=index) for index in range(3)]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[RED], jobs=jobs))

    assert plan.verdicts["red/j2"].message == (
        "Needs 2 workers × 0.4 GPU, each on a GPU of its own. Queue red allows it, but none of 2 workers fits now: "
        "on 2 GPUs 0.8 is taken and 0.2 left."
    )


def test_a_limit_that_is_used_up_is_said_in_numbers() -> None:
    queues = [make_queue("red", guaranteed=1, limit=3)]
    jobs = [make_job("old", gpus=2, placement=make_placement(("n1", [[0, 1]]))), make_job("new", gpus=2)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=8)], queues=queues, jobs=jobs))

    verdict = plan.verdicts["red/new"]
    assert verdict.reason == Reason.WAITING_FOR_QUOTA
    assert dict(verdict.evidence) == {
        "metric": "GPU",
        "scope": "queue red, class any, zone any",
        "limit": 3000,
        "used": 2000,
        "asked": 2000,
        "available": 1000,
    }
    assert verdict.message == (
        "Needs 2 GPUs, together 2 GPU; queue red, class any, zone any: limit 3 GPU, used 2 GPU, available 1 GPU."
    )


def test_gpus_whose_nodes_lack_cpu_are_named_with_what_one_worker_asks() -> None:
    jobs = [
        make_job("old", cpu_milli=6_000, placement=make_placement(("n1", [[0]]))),
        make_job("new", cpu_milli=4_500, memory_mib=2_048),
    ]

    plan = schedule(make_snapshot(nodes=[make_node("n1", cpu_milli=8_000)], queues=[RED], jobs=jobs))

    verdict = plan.verdicts["red/new"]
    assert verdict.reason == Reason.WAITING_FOR_CPU_OR_MEMORY
    assert verdict.message == (
        "Needs 1 GPU. Queue red allows it, but it does not fit now: the GPUs are there, but their nodes lack CPU or "
        "memory (one worker asks 4.5 CPUs and 2 GiB)."
    )
    assert dict(verdict.evidence) == {"asked": 1, "available": 0, "cpu_milli": 4_500, "memory_mib": 2_048}


@pytest.mark.parametrize(
    ("nodes", "named"),
    [
        (("n1",), "n1"),
        (("n1", "n2", "n3"), "n1, n2, n3"),
        (("n1", "n2", "n3", "n4", "n5"), "n1, n2, n3 and 2 more"),
    ],
)
def test_room_that_is_being_made_is_named_by_three_nodes_and_a_number(nodes: tuple[str, ...], named: str) -> None:
    placement = make_placement(*((node, [[0]]) for node in nodes))

    assert waiting_for_eviction(placement) == Refusal(
        reason=Reason.WAITING_FOR_EVICTION,
        message=f"Room is being made on {named}; it starts as soon as those who were asked to leave are gone.",
        evidence=(("nodes", named),),
    )


def held(name: str, *nodes: tuple[str, list[list[int]]], milli: int = 1_000, **changes: Any) -> Job:
    return make_job(name, placement=make_placement(*nodes, milli=milli), workers=len(nodes), milli=milli, **changes)


FOUR = [make_node("n1"), make_node("n2")]
"""Two nodes of two GPUs."""


@pytest.mark.parametrize(
    ("running", "new", "reason", "stand"),
    [
        pytest.param(
            [held("old", ("n1", [[0]]), ("n2", [[0]]))], make_job("new", gpus=2), Reason.WAITING_FOR_GPUS,
            "it does not fit now: 2 of 4 GPUs are free, at most 1 of them on one node.", id="whole GPUs on one node",
        ),
        pytest.param(
            [held("old", ("n1", [[0]]))], make_job("new", workers=4), Reason.WAITING_FOR_GPUS,
            "only 3 of 4 workers fit now: 3 of 4 GPUs are free.", id="whole GPUs anywhere",
        ),
        pytest.param(
            [held("a", ("n1", [[0]])), held("b", ("n1", [[1]]), milli=700), held("c", ("n2", [[0]]), milli=600),
             held("d", ("n2", [[1]]), milli=700)],
            make_job("new", milli=500), Reason.WAITING_FOR_GPUS,
            "it does not fit now: on 1 GPU 0.6 is taken and 0.4 left; on 2 GPUs 0.7 is taken and 0.3 left; on 1 GPU "
            "nothing is left.", id="shares, those with most left first",
        ),
        pytest.param(
            [held("a", ("n1", [[0]])), held("b", ("n1", [[1]])),
             held("c", ("n2", [[0]]), milli=100, sharing=Sharing.NEVER),
             held("d", ("n2", [[1]]), milli=100, sharing=Sharing.NEVER)],
            make_job("new", milli=500), Reason.WAITING_FOR_GPUS,
            "it does not fit now: on 2 GPUs nothing is left; 2 GPUs with room are not shared with this job "
            "(who is on it is of another queue, or asks for sharing: Never).",
            id="shares that others keep to themselves",
        ),
        pytest.param(
            [held("a", ("n1", [[0]]), ("n1", [[1]]), ("n2", [[0]])),
             held("d", ("n2", [[1]]), milli=100, sharing=Sharing.NEVER)],
            make_job("new", milli=500), Reason.WAITING_FOR_GPUS,
            "it does not fit now: on 3 GPUs nothing is left; 1 GPU with room is not shared with this job "
            "(who is on it is of another queue, or asks for sharing: Never).",
            id="one share that another keeps to itself",
        ),
        pytest.param(
            [held("old", ("n1", [[0]]), ("n2", [[0]]))],
            make_job("new", workers=2, topology=Topology("rack", TopologyMode.REQUIRED)), Reason.WAITING_FOR_TOPOLOGY,
            "only 1 of 2 workers fit now inside one rack; spread over several there would be room.", id="in one rack",
        ),
        pytest.param(
            [held("old", ("n1", [[0]]), ("n1", [[1]]), ("n2", [[0]]))],
            make_job("new", workers=2, topology=Topology("rack", TopologyMode.REQUIRED)), Reason.WAITING_FOR_GPUS,
            "only 1 of 2 workers fit now: 1 of 4 GPUs are free.", id="in one rack, and there is no room outside either",
        ),
        pytest.param(
            [held(node, (node, [[0]]), cpu_milli=64_000, memory_mib=512 * 1024) for node in ("n1", "n2")],
            make_job("new", cpu_milli=1_000, memory_mib=1_000), Reason.WAITING_FOR_CPU_OR_MEMORY,
            "it does not fit now: the GPUs are there, but their nodes lack CPU or memory (one worker asks 1 CPUs and "
            "1000 MiB).", id="nodes without any CPU and memory",
        ),
    ],
)  # fmt: skip
def test_a_job_without_room_is_told_what_there_is(running: list[Job], new: Job, reason: Reason, stand: str) -> None:
    nodes = [replace(node, rack=node.name) for node in FOUR]
    queue = make_queue("red", guaranteed=8)

    verdict = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[*running, new])).verdicts["red/new"]

    assert (verdict.reason, verdict.message.partition("allows it, but ")[2]) == (reason, stand)


def test_where_memory_is_the_scarcer_dimension_its_part_is_what_is_left() -> None:
    gpu = GpuRequest(memory_mib=65_536, compute_milli=100)
    running = make_job("old", gpu=gpu)
    toy = ToyCluster([make_node("n1", gpus=1)], [RED], [running])
    toy.cycle()
    toy.observe(make_job("new", gpu=gpu, at=1))

    assert toy.cycle().verdicts["red/new"].message.endswith("on 1 GPU 0.8 is taken and 0.2 left.")


def test_of_zones_that_are_used_up_the_one_with_most_left_is_named() -> None:
    """One of two may be had in east, two of three in west: three workers, and four are asked for."""
    lines = (Quota(zone="east", limit=2_000), Quota(zone="west", limit=3_000))
    nodes = [make_node(zone, gpus=8, zone=zone) for zone in ("east", "west")]
    queue = replace(make_queue("red"), quotas=lines)
    running = [held("a", ("east", [[0]])), held("b", ("west", [[0]]))]

    def verdict(workers: int) -> Verdict | None:
        jobs = [*running, make_job("new", workers=workers)]
        return schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=jobs)).verdicts.get("red/new")

    found = verdict(4)
    assert verdict(3) is None
    assert found is not None
    assert (found.reason, found.message) == (
        Reason.WAITING_FOR_QUOTA,
        "Needs 4 workers × 1 GPU, together 4 GPU; queue red, class any, zone west: limit 3 GPU, used 1 GPU, "
        "available 2 GPU.",
    )
