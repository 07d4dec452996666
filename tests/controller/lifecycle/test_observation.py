"""What an observation says of a job's pods: which are its gang, which strayed, when they were over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.observation import PlacementObserved, ReconcileResult
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, exited, observed, pod, server

TWO = (("n1", 1), ("n2", 1))


def test_a_job_without_a_placement_has_no_gang_and_no_size() -> None:
    o = observed(TrainingJobStatus())
    assert (o.workers, o.nodes, o.servers, o.size, o.end) == (0, 0, 0, 0, None)


def test_a_gang_has_a_pod_per_node_and_the_servers() -> None:
    o = observed(admitted(Phase.STARTING, *TWO, servers=3))
    assert (o.workers, o.nodes, o.servers, o.size) == (2, 2, 3, 5)
    assert [o.pod_name(rank) for rank in (0, 1, 2, 4)] == ["train-1-0", "train-1-1", "train-1-s0", "train-1-s2"]


@pytest.mark.parametrize(
    ("pods", "until"),
    [
        ((), T0 + 100),
        ((pod(0, end=exited(0, at=T0 + 40)),), T0 + 100),
        ((pod(0, end=exited(0, at=T0 + 40)), pod(1, node="n2", end=exited(0, at=T0 + 60))), T0 + 60),
        ((pod(0, end=exited(0, at=T0 + 40)), pod(1, node="n2", end=exited(0, at=T0 + 160))), T0 + 100),
        ((pod(0, end=exited(0, at=T0 + 40)), server(nodes=2, end=exited(0, at=T0 + 60))), T0 + 100),
    ],
    ids=["no pods", "one of two runs", "both have ended", "a clock that is ahead", "servers hold no GPUs"],
)
def test_gpus_are_held_until_the_last_pod_with_ranks_has_ended(pods: tuple[PodRecord, ...], until: float) -> None:
    assert observed(admitted(Phase.RUNNING, *TWO, servers=1), *pods, now=T0 + 100).gpus_until == until


def test_gpus_of_a_job_without_a_placement_are_over_now() -> None:
    assert observed(TrainingJobStatus(), now=T0 + 100).gpus_until == T0 + 100


@pytest.mark.parametrize(
    ("pods", "up"),
    [
        ((pod(0, ready=True),), False),
        ((pod(0, ready=True), pod(1, node="n2")), False),
        ((pod(0, ready=True), pod(1, node="n2", ready=True)), True),
        ((pod(0, ready=True), pod(1, node="n2", end=exited(0))), True),
    ],
    ids=["one is missing", "one is not ready", "both are ready", "one has ended already"],
)
def test_a_gang_is_up_when_each_pod_is_ready_or_has_ended(pods: tuple[PodRecord, ...], up: bool) -> None:
    assert observed(admitted(Phase.STARTING, *TWO), *pods).all_up is up


def test_pods_of_earlier_attempts_are_strays_unless_they_are_being_deleted() -> None:
    stray, leaving, ours = pod(0, attempt=1), pod(1, attempt=1, deleting=True), pod(0, attempt=2)
    o = observed(admitted(Phase.RUNNING, *TWO, attempts=2), stray, leaving, ours)
    assert (o.strays, list(o.gang.values())) == ((stray,), [ours])


def test_pods_that_ended_or_are_being_deleted_are_not_asked_to_stop() -> None:
    running = pod(0)
    o = observed(admitted(Phase.RUNNING, *TWO), running, pod(1, end=exited(0)), pod(1, attempt=3, deleting=True))
    assert o.stoppable == (running,)


@pytest.mark.parametrize(
    ("result", "acts"),
    [
        (ReconcileResult(requeue_at=T0), False),
        (ReconcileResult(status=TrainingJobStatus()), True),
        (ReconcileResult(delete_pods=(pod(),)), True),
        (ReconcileResult(create_pods=True), True),
        (ReconcileResult(delete_job=True), True),
    ],
    ids=["to look again", "a status", "pods to delete", "pods to make", "a job to delete"],
)
def test_a_result_acts_where_something_is_written_made_or_deleted(result: ReconcileResult, acts: bool) -> None:
    assert result.acts is acts


def test_pods_that_ended_are_those_of_the_running_attempt_by_node_rank() -> None:
    earlier, first, second = pod(1, attempt=1, end=exited(1)), pod(0, attempt=2, end=exited(0)), pod(1, attempt=2)
    late = pod(1, attempt=2, end=exited(7))
    o = observed(admitted(Phase.RUNNING, *TWO, attempts=2), second, first, gone=(late, earlier))
    assert list(o.ended.items()) == [(0, first)]
    assert list(replace(o, of_pods=replace(o.of_pods, pods=(first,))).ended.items()) == [(0, first), (1, late)]


def test_a_placement_that_was_not_looked_at_holds_nothing() -> None:
    assert PlacementObserved().held_milli == 0
