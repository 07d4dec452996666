"""Levels that come and go while a job runs, and read-backs that contradict them. Pure."""

from __future__ import annotations

import pytest

from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.isolation.verification import NOTHING, Verification
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, observed, pod
from tests.support.reconcile_cases import ONE, SETTINGS

WATCHED, HARD = IsolationLevels(memory=Isolation.WATCHED), IsolationLevels(memory=Isolation.HARD)
BOTH = IsolationLevels(memory=Isolation.WATCHED, compute=Isolation.HARD)
FALLEN = "what was verified before is not found any more; GPUNode.status.capabilities.paths may have the reason"


@pytest.mark.parametrize(
    ("before", "found", "event"),
    [
        pytest.param(
            WATCHED,
            HARD,
            EventToRecord(reason="IsolationVerified", message="memory Hard, compute None, read back from the driver"),
            id="the limit was read back",
        ),
        pytest.param(
            HARD,
            WATCHED,
            EventToRecord(
                reason="IsolationLowered",
                message=f"memory Hard, compute None before, now memory Watched, compute None: {FALLEN}",
                warning=True,
            ),
            id="the node lost it",
        ),
        pytest.param(
            HARD,
            BOTH,
            EventToRecord(
                reason="IsolationLowered",
                message=f"memory Hard, compute None before, now memory Watched, compute Hard: {FALLEN}",
                warning=True,
            ),
            id="one dimension rose and the other fell",
        ),
    ],
)
def test_a_level_that_changes_while_the_job_runs_is_written_and_never_falls_in_silence(
    before: IsolationLevels, found: IsolationLevels, event: EventToRecord
) -> None:
    status = admitted(Phase.RUNNING, *ONE, isolation=before.memory, isolation_levels=before)
    result = reconcile(observed(status, pod(ready=True), isolation=Verification(levels=found)), SETTINGS)
    assert result.status is not None
    assert (result.status.isolation, result.status.isolation_levels, result.event) == (found.memory, found, event)


@pytest.mark.parametrize(
    ("before", "found", "written"),
    [(WATCHED, HARD, None), (HARD, WATCHED, WATCHED), (NOTHING, NOTHING, None)],
    ids=["a higher level waits for the next write", "a lower one does not", "nothing changed"],
)
def test_while_it_starts(before: IsolationLevels, found: IsolationLevels, written: IsolationLevels | None) -> None:
    status = admitted(Phase.STARTING, *ONE, isolation=before.memory, isolation_levels=before)
    result = reconcile(observed(status, pod(), isolation=Verification(levels=found)), SETTINGS)
    assert (result.status and result.status.isolation_levels) == written


def test_what_was_verified_by_then_is_written_with_running() -> None:
    status = admitted(Phase.STARTING, *ONE)
    result = reconcile(observed(status, pod(ready=True), isolation=Verification(levels=HARD)), SETTINGS)
    assert result.status is not None
    assert result.event is not None
    assert (result.status.phase, result.status.isolation_levels, result.event.reason) == (
        Phase.RUNNING,
        HARD,
        "Running",
    )


def test_the_status_of_an_earlier_operator_gets_its_second_dimension_without_an_event() -> None:
    status = admitted(Phase.RUNNING, *ONE, isolation=Isolation.WATCHED, isolation_levels=None)
    result = reconcile(observed(status, pod(ready=True), isolation=Verification(levels=WATCHED)), SETTINGS)
    assert result.status is not None
    assert (result.status.isolation, result.status.isolation_levels, result.event) == ("Watched", WATCHED, None)


def test_a_mismatch_is_not_charged_and_the_job_avoids_that_node() -> None:
    wrong = Verification(mismatch="the driver has no memory limit", node="n1")
    result = reconcile(observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), isolation=wrong), SETTINGS)
    assert result.status is not None
    assert (result.status.phase, result.status.reason, result.status.failures, result.status.faults) == (
        Phase.EVICTING, "IsolationMismatch", 0, 1,
    )  # fmt: skip
    (avoided,) = result.status.excluded_nodes
    until = T0 + 100 + SETTINGS.exclude_s
    assert (avoided.node, avoided.until.timestamp(), avoided.reason) == ("n1", until, "IsolationMismatch")


def test_so_many_mismatches_in_a_row_end_the_job() -> None:
    wrong = Verification(mismatch="the driver has no memory limit", node="n1")
    status = admitted(Phase.RUNNING, *ONE, faults=SETTINGS.platform_retries)
    result = reconcile(observed(status, pod(ready=True), isolation=wrong), SETTINGS)
    assert result.status is not None
    assert (result.status.phase, result.status.reason) == (Phase.FAILED, "IsolationMismatch")
