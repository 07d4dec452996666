"""Facts that come late, twice, or not at all, and assumptions over them."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core import ClusterState, schedule
from cotenant.core.model.objects import Job
from cotenant.core.state.facts import JobGone, JobObserved, NodeGone, NodeObserved, QueueObserved
from cotenant.testing import make_job, make_node, make_placement, make_queue

JOB = make_job("a")


PLACED = make_placement(("n1", [[0]]))


def cluster(job: Job = JOB) -> ClusterState:
    state = ClusterState()
    state.observe(NodeObserved(make_node("n1", gpus=1)))
    state.observe(QueueObserved(make_queue("red", guaranteed=1)))
    state.observe(JobObserved(job))
    return state


def test_a_stale_fact_does_not_free_what_was_just_handed_out() -> None:
    state = cluster()
    state.assume(schedule(state.snapshot(1.0)), 1.0)
    state.observe(JobObserved(JOB))

    held = state.job("red/a")
    assert held is not None
    assert held.placement == PLACED
    assert schedule(state.snapshot(2.0)).actions == ()


def test_a_fact_that_is_newer_than_our_write_wins() -> None:
    state = cluster()
    plan = schedule(state.snapshot(1.0))
    state.assume(plan, 1.0)
    state.confirm(plan.actions[0], version=7)
    state.observe(JobObserved(JOB, version=6))
    before = state.job("red/a")
    state.observe(JobObserved(JOB, version=8))

    assert before is not None
    assert before.placement == PLACED
    assert state.job("red/a") == JOB


def test_a_write_that_failed_is_forgotten() -> None:
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


def test_a_new_job_of_an_old_name_starts_from_nothing() -> None:
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


def test_a_job_whose_eviction_was_just_decided_is_leaving_before_it_is_observed_to() -> None:
    running = replace(JOB, placement=PLACED, admitted_at=0.0)
    state = cluster(running)
    state.observe(JobObserved(make_job("high", priority=1)))
    state.assume(schedule(state.snapshot(1.0)), 1.0)
    state.observe(JobObserved(running))

    assert state.job("red/a") == replace(running, evicting=True)
    assert schedule(state.snapshot(2.0)).actions == ()


def test_a_fact_without_a_version_is_older_than_every_write() -> None:
    state = cluster()
    plan = schedule(state.snapshot(1.0))
    state.assume(plan, 1.0)
    state.confirm(plan.actions[0], version=1)
    state.observe(JobObserved(JOB))

    held = state.job("red/a")
    assert held is not None
    assert held.placement == PLACED


def test_the_run_time_of_a_job_that_came_to_its_end_is_remembered_once_and_that_of_a_deleted_one_is_not() -> None:
    state, job = ClusterState(), make_job("train-1")
    for ran_s in (60, 60, 70, 80, 90, 100, None):
        state.observe(JobObserved(job))
        state.observe(JobGone(job.key, ran_s))
        state.observe(JobGone(job.key, ran_s))
    assert state.snapshot(0.0).runtimes.runs_like(make_job("train-2")) == (60, 60, 70, 80, 90, 100)
