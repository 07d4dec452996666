"""The order of waiting jobs, and the rule that puts one before another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.model.objects import Job, TenantQueue, TimeOrder
from cotenant.core.policy import DEFAULT
from cotenant.query.situation import Situation
from cotenant.query.waiting_line import WaitingLine
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

FULL = make_job("full", queue="green", gpus=4, at=0.0)


def line(jobs: list[Job], queues: list[TenantQueue]) -> WaitingLine:
    toy = ToyCluster([make_node("n1", gpus=4)], queues, [FULL], DEFAULT)
    toy.cycle()
    for job in jobs:
        toy.observe(job)
    planned = toy.snapshot()
    return WaitingLine(Situation(planned, toy.cycle(), DEFAULT))


ALONE = [make_queue("green", guaranteed=4), make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0)]


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({"at": 1.0}, {"at": 2.0}, "it is older"),
        ({"at": 2.0, "priority": 5}, {"at": 1.0}, "it has a higher priority"),
        ({"at": 2.0}, {"at": 1.0}, "it fits into a gap"),
        ({"at": 1.0}, {"at": 2.0, "priority": 5}, "it fits into a gap"),
    ],
)
def test_inside_a_queue_priority_decides_and_then_age(
    first: dict[str, float], second: dict[str, float], why: str
) -> None:
    jobs = [make_job("a", **first), make_job("b", **second)]  # type: ignore[arg-type]
    assert line(jobs, ALONE).why_before(*jobs) == why


def test_in_a_queue_ordered_by_service_less_gpu_time_comes_first() -> None:
    queues = [*ALONE[:1], make_queue("red", guaranteed=0, order=TimeOrder.LEAST_SERVICE)]
    old, young = make_job("old", at=1.0, ran_s=8 * 3_600), make_job("young", at=2.0)
    found = line([old, young], queues)
    assert found.why_before(young, old) == "it has had less GPU time"
    assert found.why_before(old, young) == "it fits into a gap"
    assert [job.key for job in found.jobs] == ["red/young", "red/old"]


def test_between_queues_the_guarantee_decides() -> None:
    queues = [make_queue("green", guaranteed=2), make_queue("red", guaranteed=2), make_queue("blue", guaranteed=0)]
    red, blue = make_job("a", at=2.0), make_job("b", queue="blue", at=1.0)
    found = line([red, blue], queues)
    assert found.why_before(red, blue) == "it is inside the guarantee of its queue"
    assert found.why_before(blue, red) == "it fits into a gap"


def test_after_guarantees_the_queue_that_borrows_less_comes_first() -> None:
    queues = [make_queue("green", guaranteed=0), make_queue("red", guaranteed=0), make_queue("rest", guaranteed=4)]
    of_green, red = make_job("a", queue="green", at=1.0), make_job("b", at=2.0)
    found = line([of_green, red], queues)
    assert found.why_before(red, of_green) == "its queue borrows less"
    assert found.why_before(of_green, red) == "it fits into a gap"


def test_equal_queues_are_compared_by_their_jobs() -> None:
    red, blue = make_job("a", at=1.0), make_job("b", queue="blue", at=2.0)
    assert line([red, blue], ALONE).why_before(red, blue) == "it is older"


def test_the_line_is_in_order_of_estimates_and_jobs_without_one_are_last() -> None:
    jobs = [make_job(name, at=float(at)) for at, name in enumerate("abc")]
    now = line(jobs, ALONE).situation
    positions = {"red/c": 1, "red/b": 2}
    verdicts = {key: replace(one, position=positions.get(key)) for key, one in now.verdicts.items()}
    estimated = WaitingLine(replace(now, plan=replace(now.plan, verdicts=verdicts)))
    assert [job.key for job in estimated.jobs] == ["red/c", "red/b", "red/a"]
    assert [job.key for job in estimated.before("red/b")] == ["red/c"]
