"""A job that has finished is deleted in the end. Pure: no cluster, no clock."""

from __future__ import annotations

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
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
