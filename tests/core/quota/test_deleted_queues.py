"""Queues that were deleted while their jobs hold GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import Admit, Evict, Plan
from cotenant.core.quota.deleted_queues import with_deleted
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

ORG = make_queue("org", guaranteed=4, limit=4, namespaces=frozenset())
OTHER = make_queue("other", guaranteed=4, namespaces=frozenset())
BLUE = make_queue("blue", guaranteed=4)
OF_ORG, OF_OTHER = make_queue("a", guaranteed=2, parent="org"), make_queue("b", guaranteed=2, parent="other")


def holding(queue: str, gpus: int = 4, *, preemptible: bool = True) -> Job:
    lies = make_placement(("n1", [list(range(gpus))]))
    return replace(make_job("lent", queue=queue, gpus=gpus, placement=lies), admitted_at=0.0, preemptible=preemptible)


@pytest.mark.parametrize(
    ("queues", "jobs", "before", "deleted"),
    [
        ([BLUE], [holding("blue")], {}, {}),
        ([BLUE], [holding("red")], {}, {"red": None}),
        ([BLUE], [make_job("waits", queue="red")], {}, {}),
        ([BLUE], [holding("")], {}, {}),
        ([ORG, OF_ORG], [holding("gone")], {}, {"gone": "org"}),
        ([ORG, OF_ORG, OTHER, OF_OTHER], [holding("gone")], {}, {"gone": None}),
        ([ORG, OF_ORG, OTHER, OF_OTHER], [holding("b2")], {"b2": replace(OF_OTHER, name="b2")}, {"b2": "other"}),
        ([BLUE], [holding("a")], {"a": OF_ORG}, {"a": None}),
    ],
    ids=["it is there", "it is gone", "its job waits", "a claim of others", "below the only tree", "below one of two",
         "its parent was seen", "its parent is gone too"],
)  # fmt: skip
def test_a_deleted_queue_stays_while_its_jobs_hold_gpus(
    queues: list[TenantQueue], jobs: list[Job], before: dict[str, TenantQueue], deleted: dict[str, str | None]
) -> None:
    found = with_deleted(queues, jobs, before)
    assert {queue.name: queue.parent for queue in found if queue.deleted} == deleted
    assert [queue for queue in found if not queue.deleted] == queues


def plan_of(queues: list[TenantQueue], *jobs: Job, gpus: int) -> Plan:
    return schedule(make_snapshot(nodes=[make_node("n1", gpus=gpus)], queues=queues, jobs=list(jobs), now=50_000.0))


def test_a_guaranteed_queue_gets_back_what_jobs_of_a_deleted_queue_hold() -> None:
    plan = plan_of([BLUE], holding("red"), make_job("own", queue="blue", gpus=4, at=49_000.0), gpus=4)
    assert [one.job for one in plan.actions if isinstance(one, Evict)] == ["red/lent"]


@pytest.mark.parametrize(("limit", "starts"), [(4, False), (8, True)])
def test_jobs_of_a_deleted_queue_count_against_the_limits_above_it(limit: int, starts: bool) -> None:
    org = make_queue("org", guaranteed=4, limit=limit, namespaces=frozenset())
    more = make_job("more", queue="b", gpus=4, at=49_000.0)
    plan = plan_of([org, make_queue("b", guaranteed=2, parent="org")], holding("a", preemptible=False), more, gpus=8)
    assert any(isinstance(one, Admit) for one in plan.actions) is starts


def test_a_deleted_queue_starts_nothing() -> None:
    plan = plan_of([BLUE], holding("red", 1), make_job("new", queue="red", at=49_000.0), gpus=4)
    assert plan.verdicts["red/new"].reason.value == "QueueNotFound"
    assert plan.verdicts["red/new"].message.startswith("There is no queue red (spec.queue);")
