"""A job that has finished is deleted in the end. Pure: no cluster, no clock."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.ttl_after_finished import reconcile_finished
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, observed, pod
from tests.controller.lifecycle.reconcile_cases import Case, check

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
    result = reconcile_finished(observed(DONE, left, now=now, spec=spec))
    assert (result.delete_pods, result.delete_job, result.requeue_at) == ((left,), delete_job, requeue_at)


@pytest.mark.parametrize(
    "o",
    [
        observed(TrainingJobStatus(phase=Phase.FAILED), now=T0 + 9999, spec={"ttlAfterFinished": "1m"}),
        observed(DONE, now=T0 + 9999, spec={"ttlAfterFinished": "1m"}, problem="spec.gpu: is required"),
    ],
    ids=["without an end", "with a spec that cannot be read"],
)
def test_a_job_of_which_the_time_is_not_known_stays(o: Observation) -> None:
    result = reconcile_finished(o)
    assert (result.delete_job, result.requeue_at) == (False, None)
