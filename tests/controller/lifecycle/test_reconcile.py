"""What is done about a job that holds nothing. Pure: no cluster, no clock."""

from __future__ import annotations

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, observed, pod
from tests.controller.lifecycle.reconcile_cases import Case, check, check_written_once

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
