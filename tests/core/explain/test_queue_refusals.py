"""What a queue refuses whatever is asked for: namespaces that it does not serve, and jobs beyond its budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import Reason
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import make_job, make_node, make_queue, make_snapshot

RED = make_queue("red", guaranteed=8, limit=8)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            make_job("a", namespace="blue"),
            "Queue red (spec.queue) does not serve namespace blue; write blue or shared, which serve namespace blue.",
        ),
        (
            make_job("a", namespace="other"),
            "Queue red (spec.queue) does not serve namespace other; "
            "no queue serves namespace other, ask an administrator to add it to one.",
        ),
        (
            make_job("a", namespace="bare"),
            "Queue red (spec.queue) does not serve namespace bare; "
            "namespace bare is not labelled cotenant.dev/tenant=true, ask an administrator to label it.",
        ),
        (
            make_job("a", queue="grey", namespace="red"),
            "There is no queue grey (spec.queue); write red, which serves namespace red.",
        ),
        (
            make_job("a", queue="", namespace="none"),
            "The job names no queue (spec.queue); "
            "no queue serves namespace none, ask an administrator to add it to one.",
        ),
    ],
)
def test_if_the_queue_does_not_serve_the_namespace_the_tenant_reads_what_to_write(job: Job, message: str) -> None:
    queues = [
        make_queue("red", guaranteed=1),
        make_queue("blue", guaranteed=1, unlabelled=frozenset({"bare"})),
        make_queue("shared", guaranteed=0, namespaces=frozenset({"blue", "green"})),
    ]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=[job]))

    assert plan.verdicts[job.key].message == message


@pytest.mark.parametrize(("left", "starts"), [(None, True), (1, True), (0, False), (-1, False)])
def test_a_budget_is_spent_when_nothing_of_it_is_left(left: int | None, starts: bool) -> None:
    snapshot = make_snapshot(nodes=[make_node("n1")], queues=[replace(RED, budget_left=left)], jobs=[make_job("a")])

    assert bool(schedule(snapshot).actions) is starts


def test_a_spent_budget_names_its_limit_and_the_day_on_which_it_starts_again() -> None:
    queue = replace(RED, budget_left=0, budget=100 * 3_600_000, budget_until="2026-01-01T00:00Z")
    verdict = schedule(make_snapshot(nodes=[make_node("n1")], queues=[queue], jobs=[make_job("a")])).verdicts["red/a"]
    assert verdict.message == (
        "The budget of 100 GPU-hours of queue red is spent until 2026-01-01T00:00Z; the job starts with the next"
        " period, or when an administrator raises spec.budget.gpuHours."
    )
    assert dict(verdict.evidence) == {"metric": "GPU-hours", "scope": "queue red", "limit": "100", "available": 0}


@pytest.mark.parametrize(("left", "starts"), [(1, True), (0, False), (-1, False)])
def test_a_budget_in_money_is_spent_when_nothing_of_it_is_left(left: int, starts: bool) -> None:
    snapshot = make_snapshot(nodes=[make_node("n1")], queues=[replace(RED, money_left=left)], jobs=[make_job("a")])

    assert bool(schedule(snapshot).actions) is starts


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (
            replace(RED, money_left=0, money=250_000_000, currency="EUR"),
            "The budget of 250.00 EUR of queue red is spent",
        ),
        (replace(RED, money_left=0, money=250_000_000), "The budget of 250.00 money of queue red is spent"),
        (replace(RED, money_left=0), "The budget of queue red is spent"),
    ],
    ids=["in a currency", "without one", "whose amount is not known"],
)
def test_a_spent_budget_of_money_is_named_in_its_currency(queue: TenantQueue, said: str) -> None:
    verdict = schedule(make_snapshot(nodes=[make_node("n1")], queues=[queue], jobs=[make_job("a")])).verdicts["red/a"]
    assert verdict.message == f"{said}; it starts again with the next period."


@pytest.mark.parametrize(
    ("job", "queue", "message", "scope", "limit"),
    [
        (
            make_job("a", priority=7), replace(RED, max_priority=5),
            "The job asks for priority 7, above 5, the highest that queue red allows (maxPriority); write"
            " spec.priority: 5, or ask an administrator to change maxPriority of queue red.", "queue red", 5,
        ),
        (
            make_job("a", priority=1), replace(RED, min_priority=5),
            "The job asks for priority 1, below 5, the lowest that queue red allows (minPriority); write"
            " spec.priority: 5, or ask an administrator to change minPriority of queue red.", "queue red", 5,
        ),
        (
            make_job("a", priority=1_001), RED,
            "The job asks for priority 1001, above 1000, the highest unless a queue says otherwise; write"
            " spec.priority: 1000, or ask an administrator to change maxPriority of queue red.", "queue red", 1_000,
        ),
        (
            make_job("a", priority=7, priority_class="gold"), replace(RED, max_priority=5),
            "PriorityClass gold has priority 7, above 5, the highest that queue red allows (maxPriority); name a class"
            " of 5 or less in spec.priorityClassName, or ask an administrator to change maxPriority of queue red.",
            "queue red", 5,
        ),
        (
            make_job("a", priority=7), replace(RED, parent="top"),
            "The job asks for priority 7, above 4, the highest that queue top allows (maxPriority); write"
            " spec.priority: 4, or ask an administrator to change maxPriority of queue top.", "queue top", 4,
        ),
    ],
    ids=["above the highest", "below the lowest", "above every number", "a class above the highest", "of the parent"],
)  # fmt: skip
def test_for_a_priority_out_of_bounds_the_bound_and_its_queue_are_named(
    job: Job, queue: TenantQueue, message: str, scope: str, limit: int
) -> None:
    queues = [make_queue("top", limit=8, max_priority=4), queue]

    verdict = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=[job])).verdicts["red/a"]

    assert (verdict.reason, verdict.message) == (Reason.PRIORITY_NOT_ALLOWED, message)
    assert dict(verdict.evidence) == {"metric": "priority", "scope": scope, "limit": limit, "asked": job.priority}
