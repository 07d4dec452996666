"""Facts that come late, twice, or not at all, and assumptions over them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.model.failover import FailoverState
from cotenant.core.model.objects import Job, Placement
from cotenant.core.model.plan import Action, Admit, Evict, EvictionKind, Plan, Resize
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import (
    ClusterFact,
    JobGone,
    JobObserved,
    NodeGone,
    NodeObserved,
    QueueGone,
    QueueObserved,
)
from tests.support.clusters import UNPROTECTED, make_job, make_node, make_placement, make_queue

JOB = make_job("a")


PLACED = make_placement(("n1", [[0]]))


def cluster(job: Job = JOB) -> ClusterState:
    state = ClusterState()
    state.observe(NodeObserved(make_node("n1", gpus=1)))
    state.observe(QueueObserved(make_queue("red", guaranteed=1)))
    state.observe(JobObserved(job))
    return state


def test_a_stale_fact_does_not_free_gpus_that_were_just_handed_out() -> None:
    state = cluster()
    state.assume(schedule(state.snapshot(1.0)), 1.0)
    state.observe(JobObserved(JOB))

    held = state.job("red/a")
    assert held is not None
    assert held.placement == PLACED
    assert schedule(state.snapshot(2.0)).actions == ()


@pytest.mark.parametrize("version", [7, 8], ids=["the document that we wrote", "a later one"])
def test_a_fact_as_new_as_our_write_wins(version: int) -> None:
    state = cluster()
    plan = schedule(state.snapshot(1.0))
    state.assume(plan, 1.0)
    state.confirm(plan.actions[0], version=7)
    state.observe(JobObserved(JOB, version=6))
    before = state.job("red/a")
    state.observe(JobObserved(JOB, version=version))

    assert before is not None
    assert before.placement == PLACED
    assert state.job("red/a") == JOB


def test_a_failed_write_is_forgotten() -> None:
    state = cluster()
    plan = schedule(state.snapshot(1.0))
    state.assume(plan, 1.0)
    state.forget(plan.actions[0])

    assert state.job("red/a") == JOB
    assert schedule(state.snapshot(2.0)).actions == plan.actions


def test_a_job_that_ends_gives_back_everything_in_the_same_step() -> None:
    state = cluster(replace(JOB, placement=PLACED, admitted_at=0.0))
    state.observe(JobObserved(make_job("b")))
    assert schedule(state.snapshot(1.0)).actions == ()

    state.observe(JobGone("red/a"))

    assert [action.job for action in schedule(state.snapshot(2.0)).actions] == ["red/b"]


def test_a_new_job_with_an_old_name_starts_afresh() -> None:
    state = cluster()
    state.assume(schedule(state.snapshot(1.0)), 1.0)
    again = replace(JOB, uid="another")
    state.observe(JobObserved(again))

    assert state.job("red/a") == again


def test_a_node_that_takes_no_new_work_keeps_its_jobs() -> None:
    state = cluster(replace(JOB, placement=PLACED, admitted_at=0.0))
    state.snapshot(1.0)
    state.observe(NodeObserved(make_node("n1", gpus=1, ready=False)))
    cordoned = schedule(state.snapshot(2.0))
    state.observe(NodeGone("n1"))
    gone = schedule(state.snapshot(3.0))

    assert cordoned.actions == ()
    assert [action.job for action in gone.actions] == ["red/a"]


def test_a_job_counts_as_leaving_as_soon_as_its_eviction_is_decided() -> None:
    running = replace(JOB, placement=PLACED, admitted_at=0.0)
    state = cluster(running)
    state.observe(JobObserved(make_job("high", priority=1)))
    state.assume(schedule(state.snapshot(1.0), UNPROTECTED), 1.0)
    state.observe(JobObserved(running))

    assert state.job("red/a") == replace(running, evicting=True)
    assert schedule(state.snapshot(2.0), UNPROTECTED).actions == ()


def test_a_fact_without_a_version_is_older_than_every_write() -> None:
    state = cluster()
    plan = schedule(state.snapshot(1.0))
    state.assume(plan, 1.0)
    state.confirm(plan.actions[0], version=1)
    state.observe(JobObserved(JOB))

    held = state.job("red/a")
    assert held is not None
    assert held.placement == PLACED


def test_the_run_time_of_a_finished_job_is_learned_once_and_of_a_deleted_one_never() -> None:
    state, job = ClusterState(), make_job("train-1")
    for ran_s in (60, 60, 70, 80, 90, 100, None):
        state.observe(JobObserved(job))
        state.observe(JobGone(job.key, ran_s))
        state.observe(JobGone(job.key, ran_s))
    assert state.snapshot(0.0).runtimes.runs_like(make_job("train-2")) == (60, 60, 70, 80, 90, 100)


def test_a_fact_and_a_deletion_count_as_news_once() -> None:
    """News asks for a decision: a repetition must not, and nothing new may be missed."""
    state = ClusterState()
    node, queue = make_node("n1", gpus=1), make_queue("red", guaranteed=1)
    facts: list[ClusterFact] = [
        NodeObserved(node),
        NodeObserved(replace(node, ready=False)),
        NodeGone("n1"),
        QueueObserved(queue),
        QueueObserved(make_queue("red", guaranteed=2)),
        QueueGone("red"),
        JobObserved(JOB),
        JobObserved(replace(JOB, priority=1)),
        JobGone("red/a"),
    ]

    assert [(state.observe(fact), state.observe(fact)) for fact in facts] == [(True, False)] * len(facts)
    assert (dict(state.nodes), dict(state.queues), dict(state.jobs)) == ({}, {}, {})


RUNNING = replace(JOB, placement=PLACED, admitted_at=0.0)
LEAVE = Evict(job="red/a", kind=EvictionKind.PREEMPTED, in_favour_of=None, message="")
ADMIT = Admit(job="red/a", placement=PLACED)
GROW = Resize(job="red/a", placement=make_placement(("n1", [[0], [0]])), message="")


@pytest.mark.parametrize(
    ("before", "action", "shown", "after"),
    [
        pytest.param(RUNNING, LEAVE, replace(RUNNING, evicting=True), RUNNING, id="an eviction, by the mark"),
        pytest.param(RUNNING, LEAVE, JOB, RUNNING, id="an eviction, by the place that is free"),
        pytest.param(JOB, ADMIT, RUNNING, JOB, id="an admission"),
        pytest.param(RUNNING, GROW, replace(RUNNING, placement=GROW.placement), RUNNING, id="a resize"),
    ],
)
def test_once_a_fact_shows_the_decision_later_facts_count_as_they_are(
    before: Job, action: Action, shown: Job, after: Job
) -> None:
    state = cluster(before)
    state.assume(Plan(actions=(action,)), 1.0)
    state.observe(JobObserved(before))
    assert state.job("red/a") != before

    state.observe(JobObserved(shown))
    assert state.job("red/a") == shown

    state.observe(JobObserved(after))
    assert state.job("red/a") == after


def test_the_outcome_of_an_earlier_decision_does_not_affect_the_present_one() -> None:
    """A late answer to a write that another decision has replaced, and an answer of a job without any."""
    state = cluster(RUNNING)
    state.confirm(LEAVE, version=7)
    state.forget(LEAVE)
    assert state.job("red/a") == RUNNING

    state.assume(Plan(actions=(LEAVE,)), 1.0)
    state.confirm(GROW, version=7)
    state.forget(GROW)
    state.observe(JobObserved(RUNNING, version=8))

    assert state.job("red/a") == replace(RUNNING, evicting=True)


@pytest.mark.parametrize("earlier", [None, make_placement(("n2", [[0]]))], ids=["that rests", "that is moving already"])
def test_a_resize_starts_from_the_placement_of_the_jobs_pods(earlier: Placement | None) -> None:
    job = replace(RUNNING, resizing_from=earlier)
    state = cluster(job)
    state.assume(Plan(actions=(GROW,)), 1.0)

    assert state.job("red/a") == replace(job, placement=GROW.placement, resizing_from=earlier or PLACED)


def test_a_waiting_job_cannot_be_leaving() -> None:
    state = cluster()
    state.assume(Plan(actions=(LEAVE,)), 1.0)

    assert state.job("red/a") == JOB


@pytest.mark.parametrize(
    ("edited", "is_kept"),
    [
        (make_job("a"), True),
        (replace(make_job("a"), submitted_at=5.0), True),
        (make_job("a", workers=2), False),
        (make_job("a", classes=("A100",)), False),
        (replace(make_job("a"), uid="another"), False),
    ],
    ids=["nothing", "its age", "its workers", "its class", "it was made again"],
)
def test_an_edited_job_keeps_its_nominated_place_if_it_asks_for_the_same(edited: Job, is_kept: bool) -> None:
    state = ClusterState()
    state.observe(JobObserved(make_job("a"), 1))
    state.assume(Plan(nominations={"red/a": PLACED}), 1.0)
    state.observe(JobObserved(edited, 2))
    assert state.snapshot(2.0).nominations == ((("red/a", PLACED),) if is_kept else ())


def test_nominations_of_deleted_jobs_are_dropped() -> None:
    state = cluster()
    state.assume(Plan(nominations={"red/a": PLACED, "red/gone": PLACED}), 1.0)
    assert state.snapshot(1.0).nominations == (("red/a", PLACED),)

    state.restore(FailoverState(nominated=("red/gone", "red/a")), 2.0)
    kept = state.snapshot(2.0)

    assert (kept.nominations, kept.nominated_earlier) == ((), ("red/a",))


def test_a_job_admitted_again_is_not_leaving_although_a_fact_still_shows_it() -> None:
    state = cluster(replace(JOB, evicting=True))
    state.assume(Plan(actions=(replace(ADMIT, backfilled_until=60.0),)), 1.0)

    assert state.job("red/a") == replace(JOB, placement=PLACED, admitted_at=1.0, backfilled_until=60.0)
