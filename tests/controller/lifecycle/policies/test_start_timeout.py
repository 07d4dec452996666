"""A gang that is not up in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.policies import start_timeout
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.controller.lifecycle.termination import Eviction, Finish
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import T0, admitted, exited, observed, pod, server
from tests.support.reconcile_cases import ONE, SETTINGS, TWO

NOWHERE = "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."


def test_the_node_that_failed_a_gang_is_avoided_for_a_while_and_the_others_are_not() -> None:
    given = observed(admitted(Phase.STARTING, *TWO), pod(0, ready=True), pod(1, node="n2"), now=T0 + 300)
    step = reconcile(given, SETTINGS)
    assert step.status is not None
    assert [(one.node, one.until.timestamp()) for one in step.status.excluded_nodes] == [("n2", T0 + 1200)]


def test_a_server_that_no_node_can_take_is_not_blamed_on_the_nodes_of_the_ranks() -> None:
    waits = server(nodes=1, node="", waiting=NOWHERE)
    given = observed(admitted(Phase.STARTING, *ONE, servers=1), pod(0, ready=True), waits, now=T0 + 300)
    step = reconcile(given, SETTINGS)
    assert step.status is not None
    assert step.status.excluded_nodes == ()


STARTING = admitted(Phase.STARTING, *TWO)


@pytest.mark.parametrize(
    "o",
    [
        observed(admitted(Phase.RUNNING, *TWO), pod(0)),
        observed(STARTING, pod(0, ready=True), pod(1, node="n2", ready=True)),
    ],
    ids=["it runs", "all are up"],
)
def test_a_gang_that_is_up_has_no_deadline(o: Observation) -> None:
    assert start_timeout.deadline(o, SETTINGS) is None


@pytest.mark.parametrize(("now", "late"), [(T0 + 299, False), (T0 + 300, True), (T0 + 301, True)])
def test_the_deadline_counts_from_the_admission(now: float, late: bool) -> None:
    o = observed(STARTING, pod(0, ready=True), now=now)
    assert start_timeout.deadline(o, SETTINGS) == T0 + 300
    assert (start_timeout.ending(o, SETTINGS) is not None) is late


def test_a_placement_without_the_time_of_its_admission_is_not_late() -> None:
    placement = STARTING.placement
    assert placement is not None
    status = STARTING.model_copy(update={"placement": placement.model_copy(update={"admitted_at": None})})
    assert start_timeout.ending(observed(status, now=T0 + 9999), SETTINGS) is None


def test_nodes_of_late_pods_are_avoided_and_those_of_pods_that_are_up_or_over_are_not() -> None:
    late = pod(1, node="n2")
    ending = start_timeout.ending(observed(STARTING, pod(0, end=exited(0)), late, now=T0 + 300), SETTINGS)
    assert isinstance(ending, Eviction)
    assert (ending.event, ending.fields["faults"]) == (LifecycleEvent.START_TIMED_OUT, 1)
    assert ending.message == "not all pods were up within 300 s (n2: the pod did not become ready)"
    (avoided,) = ending.fields["excluded_nodes"]
    assert (avoided.node, avoided.reason, avoided.until.timestamp()) == (
        "n2",
        "the pod did not become ready",
        T0 + 1200,
    )


def test_a_late_server_is_named_and_no_node_is_avoided_for_it() -> None:
    status = admitted(Phase.STARTING, *TWO, servers=1)
    ups = (pod(0, ready=True), pod(1, node="n2", ready=True))
    ending = start_timeout.ending(observed(status, *ups, server(nodes=2), now=T0 + 300), SETTINGS)
    assert isinstance(ending, Eviction)
    assert ending.fields["excluded_nodes"] == ()
    assert ending.message.endswith("(server pod train-1-s0: the pod did not become ready)")


@pytest.mark.parametrize(("faults", "given_up"), [(0, False), (1, False), (2, True)])
def test_it_is_given_up_after_so_many_faults_of_the_platform(faults: int, given_up: bool) -> None:
    status: TrainingJobStatus = admitted(Phase.STARTING, *TWO, faults=faults)
    ending = start_timeout.ending(observed(status, pod(0), pod(1, node="n2"), now=T0 + 300), SETTINGS)
    assert isinstance(ending, Finish) is given_up
    if isinstance(ending, Eviction):
        assert ending.fields["faults"] == faults + 1


def test_a_gang_that_is_given_up_has_an_exit_without_a_code_of_the_program() -> None:
    status = admitted(Phase.STARTING, *TWO, faults=2)
    ending = start_timeout.ending(observed(status, pod(0), pod(1, node="n2"), now=T0 + 300), SETTINGS)
    assert ending is not None
    last = ending.fields["last_exit"]
    assert (last.code, last.reason, last.at.timestamp()) == (-1, "StartTimeout", T0 + 300)


@pytest.mark.parametrize(
    ("gang", "mounts", "avoided_s"),
    [
        ((pod(0, ready=True), pod(1, node="n2", preparing_since=T0)), True, {"n2": 900.0}),
        ((pod(0, preparing_since=T0), pod(1, node="n2", preparing_since=T0)), True, {"n1": 60.0, "n2": 60.0}),
        ((pod(0, preparing_since=T0), pod(1, node="n2", preparing_since=T0)), False, {"n1": 900.0, "n2": 900.0}),
        ((), False, {}),
        ((pod(0, node="", waiting=""), pod(1, node="", waiting="")), False, {}),
        ((pod(0, ready=True), pod(1, node="", waiting="")), False, {}),
    ],
    ids=[
        "its volumes came to another node",
        "its volumes may not be there",
        "it mounts nothing",
        "no pod was made",
        "the kube-scheduler is away",
        "the kube-scheduler is slow",
    ],
)
def test_a_gang_whose_containers_never_ran_is_never_given_up(
    gang: tuple[PodRecord, ...], mounts: bool, avoided_s: dict[str, float]
) -> None:
    runtime = {"command": ["a"], "code": {"configMap": {"name": "code"}}} if mounts else {"command": ["a"]}
    given = observed(admitted(Phase.STARTING, *TWO, faults=99), *gang, now=T0 + 300, spec={"runtime": runtime})
    ending = start_timeout.ending(given, SETTINGS)
    assert isinstance(ending, Eviction)
    assert "faults" not in ending.fields
    avoided = {one.node: one.until.timestamp() - given.now for one in ending.fields["excluded_nodes"]}
    assert avoided == avoided_s


@pytest.mark.parametrize(("now", "late"), [(T0 + 900, False), (T0 + 3599, False), (T0 + 3600, True)])
def test_a_pull_does_not_count_but_ends_within_an_hour(now: float, late: bool) -> None:
    given = observed(admitted(Phase.STARTING, *ONE), pod(0, waiting=""), now=now)
    assert (start_timeout.ending(given, SETTINGS) is not None) is late


def test_the_time_of_a_container_counts_from_its_own_start() -> None:
    started = replace(pod(0), started_at=T0 + 500)
    assert start_timeout.deadline(observed(admitted(Phase.STARTING, *ONE), started), SETTINGS) == T0 + 800
