"""Reconcile of a job that waits or has finished. Pure: no cluster, no clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.informers.job_record import read_job
from cotenant.controller.lifecycle.observation import EventToRecord, Observation
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, job_document, observed, pod
from tests.support.reconcile_cases import SETTINGS, Case, check, check_written_once

WAITING = [
    Case("a new job is left to the scheduler", observed(TrainingJobStatus()), holds=False),
    Case(
        "a new job that is suspended says so",
        observed(TrainingJobStatus(), spec={"suspend": True}),
        phase=Phase.SUSPENDED, reason="Suspended", says="spec.suspend", holds=False,
    ),
    Case(
        "a suspended job that is resumed waits again",
        observed(TrainingJobStatus(phase=Phase.SUSPENDED)),
        phase=Phase.PENDING, reason="Resumed", holds=False,
    ),
    Case(
        "a suspended job without a message is resumed as well",
        observed(TrainingJobStatus(phase=Phase.SUSPENDED, message="")),
        phase=Phase.PENDING, reason="Resumed", holds=False,
    ),
    Case(
        "a job that cannot be read is told the field",
        observed(TrainingJobStatus(), problem="spec.gpu: is required", now=T0),
        phase=Phase.INVALID, reason="Invalid", says="spec.gpu: is required", holds=False,
    ),
    Case(
        "an invalid job that was mended waits",
        observed(TrainingJobStatus(phase=Phase.INVALID, message="spec.gpu: is required")),
        phase=Phase.PENDING, reason="Accepted", holds=False,
    ),
    Case(
        "pods of a job that holds nothing are ended",
        observed(TrainingJobStatus(phase=Phase.PENDING, attempts=1), pod()),
        delete=("train-1-0",), holds=False,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", WAITING, ids=lambda case: case.name)
def test_a_job_that_holds_nothing(case: Case) -> None:
    check(case)
    check_written_once(case)


DONE = TrainingJobStatus(phase=Phase.SUCCEEDED, attempts=1, finished_at=T0)
FINISHED = [
    Case("a finished job is kept", observed(DONE), holds=False),
    Case(
        "what still runs of it is ended",
        observed(DONE, pod(ready=True)),
        delete=("train-1-0",), holds=False,
    ),
    Case(
        "ttlAfterFinished is waited for",
        observed(DONE, spec={"ttlAfterFinished": "5m"}),
        again=T0 + 300, holds=False,
    ),
    Case(
        "and removes it",
        observed(DONE, spec={"ttlAfterFinished": "5m"}, now=T0 + 300),
        delete_job=True, holds=False,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", FINISHED, ids=lambda case: case.name)
def test_a_job_that_has_finished(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("spec", "now", "delete_job", "requeue_at"),
    [
        ({}, T0 + 9999, False, None),
        ({"ttlAfterFinished": "1m"}, T0 + 59, False, T0 + 60),
        ({"ttlAfterFinished": "1m"}, T0 + 60, True, None),
        ({"ttlAfterFinished": "1m"}, T0 + 61, True, None),
        ({"ttlAfterFinished": "0s"}, T0, True, None),
    ],
    ids=["without a time", "before it", "at it", "after it", "at once"],
)
def test_a_job_goes_when_its_time_is_over(
    spec: dict[str, Any], now: float, delete_job: bool, requeue_at: float | None
) -> None:
    left = pod()
    result = reconcile(observed(DONE, left, now=now, spec=spec), SETTINGS)
    assert (result.delete_pods, result.delete_job, result.requeue_at) == ((left,), delete_job, requeue_at)


DONE_LONG_AGO = observed(DONE, now=T0 + 9999, spec={"ttlAfterFinished": "1m"}, problem="spec.gpu: is required")


@pytest.mark.parametrize(
    "o",
    [
        observed(TrainingJobStatus(phase=Phase.FAILED), now=T0 + 9999, spec={"ttlAfterFinished": "1m"}),
        replace(DONE_LONG_AGO, record=replace(DONE_LONG_AGO.record, job=None)),
    ],
    ids=["without an end", "with a spec that cannot be read"],
)
def test_a_job_of_which_the_time_is_not_known_stays(o: Observation) -> None:
    result = reconcile(o, SETTINGS)
    assert (result.delete_job, result.requeue_at) == (False, None)


def test_a_problem_that_is_longer_than_a_status_may_be_is_written_once() -> None:
    problem = "spec.gpu: is required; " * 1000
    first = reconcile(observed(TrainingJobStatus(phase=Phase.PENDING), problem=problem), SETTINGS)
    assert first.status is not None
    assert (first.status.phase, len(first.status.message or "")) == (Phase.INVALID, 4000)
    assert reconcile(observed(first.status, problem=problem), SETTINGS).acts is False


def test_a_job_that_cannot_be_read_is_a_warning() -> None:
    event = reconcile(observed(TrainingJobStatus(), problem="spec.gpu: is required"), SETTINGS).event
    assert event == EventToRecord(reason="Invalid", message="spec.gpu: is required", warning=True)


def restored(status: TrainingJobStatus, *, label: bool = True) -> Observation:
    document = job_document(status=status.to_document())
    document["metadata"]["labels"] = {"velero.io/restore-name": "nightly-1"} if label else {}
    return Observation(record=read_job(document), now=T0)


def test_a_job_that_came_back_without_its_status_waits_for_a_word() -> None:
    first = reconcile(restored(TrainingJobStatus()), SETTINGS).status
    assert first is not None
    assert (first.phase, first.reason) == (Phase.SUSPENDED, "Restored")
    assert "kubectl label trainingjob -n red train velero.io/restore-name-" in (first.message or "")
    assert not reconcile(restored(first), SETTINGS).acts
    resumed = reconcile(restored(first, label=False), SETTINGS).status
    assert resumed is not None
    assert resumed.phase is Phase.PENDING


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.PENDING, Phase.RUNNING])
def test_a_job_that_came_back_with_its_status_goes_on(phase: Phase) -> None:
    assert not restored(TrainingJobStatus(phase=phase)).record.awaits_word
