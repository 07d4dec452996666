"""Reasons to wait: how the GPUs stand, and which limit is used up."""

from __future__ import annotations

import pytest

from cotenant.core import schedule
from cotenant.core.explain.pending_reason import waiting_for_eviction
from cotenant.core.model.plan import Reason, Refusal
from cotenant.testing import make_job, make_node, make_placement, make_queue, make_snapshot

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
        "memory (one worker asks 4.5 CPUs and 2048 MiB)."
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
