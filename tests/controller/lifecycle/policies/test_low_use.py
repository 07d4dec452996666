"""The condition `LowUse`: written when it comes, goes or has another reason, and at no other time. Pure."""

from __future__ import annotations

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.informers.job_memory import UseFinding
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.lifecycle.policies.low_use import said_of
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from cotenant.decision_log.low_use import LowUse
from tests.controller.builders import T0, admitted, observed, pod
from tests.support.reconcile_cases import SETTINGS

WAITS = UseFinding(1, LowUse.LOADER_BOUND, "waits for data")
GONE = UseFinding(1, None, "not seen any more")


def running(*findings: tuple[UseFinding, float]) -> TrainingJobStatus:
    """The status of a running job after these findings, each written at its time."""
    status = status_transitions.with_progress(admitted(Phase.RUNNING, ("n1", 1)), None)
    for finding, at in findings:
        status = _next(status, finding, at) or status
    return status


def _next(status: TrainingJobStatus, finding: UseFinding | None, at: float) -> TrainingJobStatus | None:
    levels = reconcile(observed(status, pod(ready=True), now=at), SETTINGS).status or status
    return reconcile(observed(levels, pod(ready=True), now=at, low_use=finding), SETTINGS).status


def shown(status: TrainingJobStatus) -> tuple[str, str, str, float | None] | None:
    found = next((one for one in status.conditions if one.type == "LowUse"), None)
    return (found.status, found.reason, found.message, unix_seconds(found.last_transition_time)) if found else None


def test_a_job_that_uses_what_it_holds_has_no_such_condition() -> None:
    assert shown(running()) is None
    assert _next(running(), None, T0 + 100) is None
    assert _next(running(), GONE, T0 + 100) is None


def test_a_finding_is_a_condition_and_an_event_and_is_written_once() -> None:
    status = running((WAITS, T0 + 100))
    assert shown(status) == ("True", "LoaderBound", "waits for data", T0 + 100)
    assert said_of(status) is LowUse.LOADER_BOUND
    base = running()
    base = reconcile(observed(base, pod(ready=True)), SETTINGS).status or base
    result = reconcile(observed(base, pod(ready=True), low_use=WAITS), SETTINGS)
    assert result.event == EventToRecord(reason="LowUse", message="LoaderBound: waits for data")
    other_figures = UseFinding(1, LowUse.LOADER_BOUND, "waits for data, a little longer")
    assert _next(status, other_figures, T0 + 200) is None


def test_another_cause_keeps_since_when_and_what_is_refuted_becomes_false() -> None:
    small = UseFinding(1, LowUse.SMALL_BATCH, "short kernels")
    status = running((WAITS, T0 + 100), (small, T0 + 700))
    assert shown(status) == ("True", "SmallBatch", "short kernels", T0 + 100)
    status = running((WAITS, T0 + 100), (GONE, T0 + 700))
    assert shown(status) == ("False", "WellUsed", "not seen any more", T0 + 700)
    assert said_of(status) is None


def test_it_outlives_the_run_and_an_eviction() -> None:
    status = running((WAITS, T0 + 100))
    for event in (LifecycleEvent.COMPLETED, LifecycleEvent.EVICTED):
        moved = status_transitions.moved(status, event, reason="X", message="", now=T0 + 200)
        assert shown(moved) == shown(status)


def test_a_job_that_only_starts_is_told_nothing() -> None:
    result = reconcile(observed(admitted(Phase.STARTING, ("n1", 1)), pod(), low_use=WAITS), SETTINGS)
    assert result.status is None or shown(result.status) is None
