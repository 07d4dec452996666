"""Changes of the world: what counts as one, and that evicted jobs may be evicted again after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.model.failover import FailoverState
from cotenant.core.model.objects import GpuRequest, Job, Node, TenantQueue
from cotenant.core.model.plan import Evict, EvictionKind, Plan
from cotenant.core.state.changes import is_change_of_job, is_change_of_queue
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
from tests.support.clusters import make_job, make_node, make_placement, make_queue

PLACED = make_placement(("n1", [[0]]))
RUNNING = make_job("a", placement=PLACED, admitted_at=5.0)
WAITING = make_job("a")
SIZED = replace(make_job("a"), gpu=GpuRequest(memory_mib=16, compute_milli=200), asked_memory_mib=16)
SMALLER = replace(SIZED, gpu=GpuRequest(memory_mib=4, compute_milli=200))


@pytest.mark.parametrize(
    ("job", "before", "want"),
    [
        pytest.param(WAITING, None, True, id="it arrives"),
        pytest.param(replace(WAITING, uid="other"), WAITING, True, id="it was made anew"),
        pytest.param(replace(WAITING, priority=3), WAITING, True, id="it was edited"),
        pytest.param(replace(WAITING, excluded_nodes=frozenset({"n1"})), WAITING, True, id="it avoids a node"),
        pytest.param(WAITING, RUNNING, True, id="it gave its place up by itself"),
        pytest.param(replace(RUNNING, evicting=True), RUNNING, True, id="it failed and is leaving"),
        pytest.param(RUNNING, WAITING, False, id="it started"),
        pytest.param(WAITING, replace(RUNNING, evicting=True), False, id="it left as it was asked to"),
        pytest.param(replace(RUNNING, last_checkpoint_at=9.0), RUNNING, False, id="it saved its work"),
        pytest.param(SMALLER, SIZED, False, id="less memory was measured to do"),
        pytest.param(replace(SMALLER, asked_memory_mib=8), SIZED, True, id="it asks for less memory"),
        pytest.param(replace(SMALLER, asked_memory_mib=None), SIZED, True, id="it may not be made smaller any more"),
        pytest.param(replace(RUNNING, idle=True), RUNNING, False, id="it computes nothing any more"),
        pytest.param(
            WAITING, replace(RUNNING, evicting=True, idle=True), False, id="it left, and is not idle any more"
        ),
        pytest.param(RUNNING, replace(RUNNING, evicting=True), False, id="an eviction that is not observed yet"),
    ],
)
def test_whether_a_job_has_changed(job: Job, before: Job | None, want: bool) -> None:
    assert is_change_of_job(job, before) is want


@pytest.mark.parametrize(
    ("queue", "before", "want"),
    [
        pytest.param(make_queue("red"), None, True, id="it is new"),
        pytest.param(None, make_queue("red"), True, id="it is gone"),
        pytest.param(None, None, False, id="it was never there"),
        pytest.param(make_queue("red", weight=2), make_queue("red"), True, id="it was edited"),
        pytest.param(make_queue("red", budget_left=5), make_queue("red", budget_left=9), False, id="a budget is used"),
        pytest.param(make_queue("red", budget_left=0), make_queue("red", budget_left=9), True, id="a budget is spent"),
        pytest.param(make_queue("red", budget_left=9), make_queue("red"), True, id="a budget is given"),
    ],
)
def test_whether_a_queue_has_changed(queue: TenantQueue | None, before: TenantQueue | None, want: bool) -> None:
    assert is_change_of_queue(queue, before) is want


EVICTION = Evict(job="red/a", kind=EvictionKind.RECLAIMED, in_favour_of="blue/b", message="")
NODE: Node = make_node("n1")


def after_an_eviction(**changes: Any) -> ClusterState:
    state = ClusterState()
    for fact in (NodeObserved(NODE), QueueObserved(make_queue("red")), JobObserved(RUNNING)):
        state.observe(fact)
    state.assume(Plan(actions=(replace(EVICTION, **changes),)), 10.0)
    return state


@pytest.mark.parametrize(
    ("fact", "kept"),
    [
        pytest.param(JobObserved(replace(RUNNING, evicting=True)), True, id="the eviction is observed"),
        pytest.param(JobObserved(WAITING), True, id="it has left"),
        pytest.param(NodeObserved(NODE), True, id="a fact is repeated"),
        pytest.param(JobGone("red/unknown"), True, id="a job that is not known is gone"),
        pytest.param(JobObserved(make_job("b")), False, id="a job arrives"),
        pytest.param(JobGone("red/a"), False, id="a job departs"),
        pytest.param(NodeObserved(replace(NODE, ready=False)), False, id="a node changes"),
        pytest.param(NodeGone("n1"), False, id="a node is gone"),
        pytest.param(QueueObserved(make_queue("red", weight=3)), False, id="a queue changes"),
        pytest.param(QueueGone("red"), False, id="a queue is gone"),
    ],
)
def test_evicted_jobs_are_remembered_until_something_changes(fact: ClusterFact, kept: bool) -> None:
    state = after_an_eviction()
    state.observe(fact)

    assert state.snapshot(11.0).evicted == (("red/a",) if kept else ())


def test_a_job_that_lost_its_node_does_not_count_as_evicted_for_another() -> None:
    assert after_an_eviction(in_favour_of=None, kind=EvictionKind.NODE_LOST).snapshot(11.0).evicted == ()


def test_a_failed_eviction_is_forgotten() -> None:
    state = after_an_eviction()
    state.forget(EVICTION)

    assert state.snapshot(11.0).evicted == ()


def test_a_new_leader_keeps_the_evictions_it_reads_until_something_changes() -> None:
    state = ClusterState()
    state.restore(FailoverState(evicted=("red/a",)), 20.0)
    for fact in (NodeObserved(NODE), QueueObserved(make_queue("red")), JobObserved(WAITING)):
        state.observe(fact)
    first = state.snapshot(21.0).evicted
    state.observe(JobObserved(make_job("b")))

    assert (first, state.snapshot(22.0).evicted) == (("red/a",), ())
