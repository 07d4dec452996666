"""Which attempts count against a job."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.api.resources.trainingjob_status import CheckpointStatus, ExitStatus, ProgressStatus
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome
from cotenant.controller.lifecycle.policies.retries import decide, exit_message
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.controller.lifecycle.termination import Eviction, Finish
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import admitted, exited, observed, pod
from tests.support.reconcile_cases import ONE, SETTINGS


@pytest.mark.parametrize(
    ("before", "saved", "want"),
    [
        pytest.param(None, None, (3, None), id="it saves nothing"),
        pytest.param(None, 50, (1, 50), id="its first"),
        pytest.param(40, 50, (1, 50), id="a newer one"),
        pytest.param(50, 50, (3, 50), id="the same"),
        pytest.param(50, None, (3, 50), id="nobody could say"),
    ],
)
def test_faults_of_the_platform_are_counted_since_the_job_last_got_on(
    before: int | None, saved: int | None, want: tuple[int, int | None]
) -> None:
    gone = exited(names.EXIT_RAY_DIED, reason="RayDied", last_checkpoint_step=saved)
    status = reconcile(
        observed(admitted(Phase.RUNNING, *ONE, faults=2, saved_at_fault=before), pod(end=gone)), SETTINGS
    ).status
    assert status
    assert (status.faults, status.saved_at_fault) == want


SEEN = ExitStatus(code=3, reason="UserError", message="rank 0 ended with 3", rank=0)
OWN, BROKEN, PLATFORM, OUTSIDE = (
    AttemptEnd(outcome=outcome, exit=SEEN)
    for outcome in (
        AttemptOutcome.FAILED,
        AttemptOutcome.NON_RETRIABLE,
        AttemptOutcome.PLATFORM_FAULT,
        AttemptOutcome.EXTERNAL_DISRUPTION,
    )
)


def exit_of(message: str, **where: Any) -> ExitStatus:
    return ExitStatus(code=3, reason="E", message=message, **where)


@pytest.mark.parametrize(
    ("end", "before", "retries", "event", "counted"),
    [
        (OWN, (0, 0), 0, LifecycleEvent.GAVE_UP, (1, 0)),
        (OWN, (0, 0), 1, LifecycleEvent.CRASHED, (1, 0)),
        (OWN, (1, 0), 1, LifecycleEvent.GAVE_UP, (2, 0)),
        (OWN, (1, 2), 2, LifecycleEvent.CRASHED, (2, 2)),
        (BROKEN, (0, 0), 5, LifecycleEvent.GAVE_UP, (1, 0)),
        (PLATFORM, (0, 0), 0, LifecycleEvent.CRASHED, (0, 1)),
        (PLATFORM, (0, 1), 0, LifecycleEvent.CRASHED, (0, 2)),
        (PLATFORM, (0, 2), 0, LifecycleEvent.GAVE_UP, (0, 3)),
        (OUTSIDE, (3, 2), 0, LifecycleEvent.EVICTED, (3, 2)),
    ],
)
def test_each_end_is_charged_to_whose_fault_it_was(
    end: AttemptEnd, before: tuple[int, int], retries: int, event: LifecycleEvent, counted: tuple[int, int]
) -> None:
    """`before` and `counted` are failures of the job's own, and faults of the platform in a row."""
    failures, faults = before
    status = admitted(Phase.RUNNING, ("n1", 1), failures=failures, faults=faults)
    decided = decide(observed(status, spec={"retries": retries}), end, SETTINGS)
    assert decided.event is event
    assert (decided.fields["failures"], decided.fields.get("faults", faults)) == counted
    assert decided.fields["last_exit"] == SEEN


def test_a_retry_and_the_last_of_several_are_told_apart() -> None:
    status = admitted(Phase.RUNNING, ("n1", 1), failures=1)
    again = decide(observed(status, spec={"retries": 2}), OWN, SETTINGS)
    last = decide(observed(status, spec={"retries": 1}), OWN, SETTINGS)
    only = decide(observed(admitted(Phase.RUNNING, ("n1", 1))), OWN, SETTINGS)
    assert isinstance(again, Eviction)
    assert isinstance(last, Finish)
    assert [one.message for one in (again, last, only)] == [
        "rank 0 ended with 3; the job will be tried again",
        "rank 0 ended with 3; all 1 retries are used",
        "rank 0 ended with 3",
    ]


@pytest.mark.parametrize(
    ("exit_step", "polled", "before", "counted"),
    [
        (None, None, None, (3, None)),
        (50, None, None, (1, 50)),
        (50, None, 40, (1, 50)),
        (50, None, 50, (3, 50)),
        (None, 60, 50, (1, 60)),
        (40, 60, 50, (1, 60)),
        (40, None, 50, (3, 50)),
    ],
    ids=["nothing saved", "the first", "a newer one", "the same", "polled", "the newer of both", "an older one"],
)
def test_faults_in_a_row_are_counted_anew_since_the_job_saved_something_new(
    exit_step: int | None, polled: int | None, before: int | None, counted: tuple[int, int | None]
) -> None:
    progress = None if polled is None else ProgressStatus(last_checkpoint=CheckpointStatus(step=polled))
    status = admitted(Phase.RUNNING, ("n1", 1), faults=2, saved_at_fault=before, progress=progress)
    left: dict[str, Any] = {} if exit_step is None else {"last_checkpoint_step": exit_step}
    decided = decide(observed(status, pod(end=exited(81, rank=0, **left))), PLATFORM, Settings(platform_retries=9))
    assert (decided.fields["faults"], decided.fields["saved_at_fault"]) == counted


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (exit_of("rank 1 failed", rank=1, pod="p", node="n"), "rank 1 (pod p on node n) failed"),
        (exit_of("rank 12 lost rank 1", rank=1, pod="p"), "rank 1 (pod p) ended with 3 (E): rank 12 lost rank 1"),
        (exit_of("no data", rank=1, node="n"), "rank 1 (on node n) ended with 3 (E): no data"),
        (exit_of("", rank=1), "rank 1 ended with 3 (E)"),
        (exit_of("pod p ended with 3", pod="p", node="n"), "pod p ended with 3"),
        (exit_of("no data", pod="p", node="n"), "the job (pod p on node n) ended with 3 (E): no data"),
        (exit_of(""), "the job ended with 3 (E)"),
    ],
)
def test_a_message_names_the_rank_and_where_it_was_once(seen: ExitStatus, message: str) -> None:
    assert exit_message(seen) == message


def test_a_job_whose_spec_cannot_be_read_has_no_retries_to_speak_of() -> None:
    o = observed(admitted(Phase.RUNNING, ("n1", 1)), problem="spec.gpu: is required")
    assert decide(o, OWN, SETTINGS).message == "rank 0 ended with 3"
