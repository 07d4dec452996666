"""Protected jobs in the way of a waiting job: until when, on how many GPUs, and only if they are what it waits for."""

from __future__ import annotations

import pytest

from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Verdict
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

POLICY = Policy(protected_runtime_s=300)


def running(name: str, gpu: int, *, at: float, **changes: object) -> Job:
    return make_job(name, placement=make_placement(("n1", [[gpu]])), admitted_at=at, **changes)  # type: ignore[arg-type]


def verdict_of(asks: Job, *jobs: Job, now: float = 1_000.0, gpus: int = 2, protected_s: int = 0) -> Verdict:
    queues = [
        make_queue("red", guaranteed=1, limit=gpus, protected_runtime_s=protected_s),
        make_queue("blue", guaranteed=gpus - 1),
    ]
    snapshot = make_snapshot(nodes=[make_node("n1", gpus=gpus)], queues=queues, jobs=[*jobs, asks], now=now)
    plan = schedule(snapshot, POLICY)
    assert plan.actions == ()
    return plan.verdicts[asks.key]


def told(verdict: Verdict) -> dict[str, str | int]:
    return {name: value for name, value in verdict.evidence if name.startswith("protected")}


def test_a_queue_gets_its_guarantee_back_at_once() -> None:
    """Whatever protects it, from the policy or from its queue."""
    queues = [make_queue("red", guaranteed=0, protected_runtime_s=900), make_queue("blue", guaranteed=1)]
    jobs = [running("young", 0, at=999.0, queue="red"), make_job("owner", queue="blue")]
    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=1)], queues=queues, jobs=jobs, now=1_000.0), POLICY)
    assert [action.job for action in plan.actions] == ["red/young"]


def test_of_several_protected_victims_the_last_protection_to_end_counts() -> None:
    lower = [running("low0", 0, at=900.0, queue="red"), running("low1", 1, at=950.0, queue="red")]
    verdict = verdict_of(make_job("high", queue="red", priority=5, workers=2), *lower)
    assert told(verdict) == {"protected": "2", "protected_until": "1970-01-01T00:20:50Z"}


def test_the_protected_time_of_a_queue_counts_if_it_is_longer() -> None:
    lower = running("low", 0, at=900.0, queue="red")
    other = running("own", 1, at=0.0, queue="blue")
    verdict = verdict_of(make_job("high", queue="red", priority=5), lower, other, protected_s=600)
    assert told(verdict) == {"protected": "1", "protected_until": "1970-01-01T00:25:00Z"}


@pytest.mark.parametrize(
    "asks",
    [
        pytest.param(make_job("equal", queue="red"), id="of equal priority: nobody would leave for it"),
        pytest.param(make_job("large", queue="red", priority=5, workers=2), id="larger than all that would leave"),
    ],
)
def test_protection_is_not_named_if_a_job_waits_for_something_else(asks: Job) -> None:
    jobs = [running("low", 0, at=900.0, queue="red"), running("own", 1, at=0.0, queue="blue")]
    assert told(verdict_of(asks, *jobs)) == {}


def test_the_message_about_protection_ends_with_the_protection() -> None:
    """When the protection ends, the job leaves."""
    lower, other = running("low", 0, at=900.0, queue="red"), running("own", 1, at=0.0, queue="blue")
    asks = make_job("high", queue="red", priority=5)
    before = verdict_of(asks, lower, other, now=1_199.0)
    assert told(before) == {"protected": "1", "protected_until": "1970-01-01T00:20:00Z"}
    queues = [make_queue("red", guaranteed=1, limit=2), make_queue("blue", guaranteed=1)]
    snapshot = make_snapshot(nodes=[make_node("n1", gpus=2)], queues=queues, jobs=[lower, other, asks], now=1_200.0)
    assert [action.job for action in schedule(snapshot, POLICY).actions] == ["red/low"]


def test_a_job_that_may_leave_now_is_not_counted_among_the_protected() -> None:
    """Its GPUs alone do not suffice, so it stays until the other job may leave as well."""
    jobs = [running("old", 0, at=0.0, queue="red"), running("new", 1, at=900.0, queue="red")]
    verdict = verdict_of(make_job("high", queue="red", priority=5, workers=2), *jobs)
    assert told(verdict) == {"protected": "1", "protected_until": "1970-01-01T00:20:00Z"}


def test_borrowed_gpus_of_others_are_not_counted_as_protected() -> None:
    jobs = [
        running("covered", 0, at=0.0, queue="red", priority=9),
        running("borrows", 1, at=900.0, queue="red"),
        running("own", 2, at=950.0, queue="blue"),
        running("fixed", 3, at=0.0, queue="red", preemptible=False),
    ]
    verdict = verdict_of(make_job("high", queue="blue", priority=5, workers=2), *jobs, gpus=4)
    assert told(verdict) == {"protected": "1", "protected_until": "1970-01-01T00:20:50Z"}
    assert " 1 GPU of jobs that would leave for it is protected until" in verdict.message
