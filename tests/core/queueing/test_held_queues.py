"""Held queues: no job of them, or of queues below, starts or grows; running jobs go on, and may be evicted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import Admit, Evict, Reason, Resize
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import UNPROTECTED, make_job, make_node, make_placement, make_queue, make_snapshot

TOP = make_queue("top", guaranteed=4)
RED = make_queue("red", parent="top", guaranteed=2)
BLUE = make_queue("blue", parent="top", guaranteed=2)


def held(queue: TenantQueue) -> TenantQueue:
    return replace(queue, hold="storage is rebuilt")


@pytest.mark.parametrize("queues", [[TOP, held(RED)], [held(TOP), RED]], ids=["itself", "a queue above"])
def test_a_job_of_a_held_queue_waits_with_the_reason_of_the_administrator(queues: list[TenantQueue]) -> None:
    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=[make_job("j")]))
    verdict = plan.verdicts["red/j"]
    assert (plan.actions, verdict.reason, verdict.reason.needs_change) == ((), Reason.QUEUE_HELD, True)
    name = next(queue.name for queue in queues if queue.hold)
    assert verdict.message.startswith(
        f"An administrator holds queue {name}: storage is rebuilt. Its running jobs continue."
    )


def test_gpus_borrowed_by_a_held_queue_can_still_be_reclaimed() -> None:
    lent = make_job("lent", placement=make_placement(("n1", [[0], [1]])), workers=2, admitted_at=0.0)
    queues = [TOP, held(replace(RED, quotas=())), replace(BLUE, quotas=TOP.quotas)]
    jobs = [lent, make_job("own", queue="blue", workers=2, at=1.0)]
    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=jobs), UNPROTECTED)
    assert [one.job for one in plan.actions if isinstance(one, Evict)] == ["red/lent"]


jobs = st.lists(
    st.builds(
        lambda number, queue, workers, priority: make_job(
            f"j{number}", queue=queue, workers=(1, workers), priority=priority, at=float(number)
        ),
        st.integers(0, 99),
        st.sampled_from(["red", "blue"]),
        st.integers(1, 3),
        st.integers(0, 2),
    ),
    max_size=6,
    unique_by=lambda job: job.key,
)


@given(jobs)
def test_a_held_queue_starts_and_grows_nothing_and_does_not_hinder_others(waiting: list[Job]) -> None:
    runs = make_job("runs", workers=(1, 2), placement=make_placement(("n1", [[0]])), admitted_at=0.0)
    nodes = [make_node("n1"), make_node("n2")]
    plan = schedule(make_snapshot(nodes=nodes, queues=[TOP, held(RED), BLUE], jobs=[runs, *waiting]), UNPROTECTED)
    moved = {one.job for one in plan.actions if isinstance(one, Admit | Resize)}
    assert {key for key in moved if key.startswith("red/")} == set()
    if any(job.queue == "blue" for job in waiting):
        assert any(key.startswith("blue/") for key in moved)
    assert {plan.verdicts[job.key].reason for job in waiting if job.queue == "red"} <= {Reason.QUEUE_HELD}
