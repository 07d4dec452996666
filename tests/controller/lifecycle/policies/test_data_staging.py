"""What a job with data tells while its GPUs wait, and after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.contract import Progress
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.lifecycle.policies import data_staging
from cotenant.controller.lifecycle.progress import progress_update, summary
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, observed, pod
from tests.support.reconcile_cases import ONE, SETTINGS

GIB = 1 << 30
HALFWAY = Progress(state="staging", staged_bytes=3 * GIB + GIB // 10, staging_bytes=12 * GIB, staging_s=10.5)


@pytest.mark.parametrize(
    ("fetched", "of", "text"),
    [
        (0, 0, "Staging data (listing)"),
        (0, 900, "Staging data 0 of 900 B"),
        (512, 2048, "Staging data 0.5 of 2 KiB"),
        (HALFWAY.staged_bytes, HALFWAY.staging_bytes, "Staging data 3.1 of 12 GiB"),
        (1 << 60, 1 << 62, "Staging data 1024 of 4096 PiB"),
    ],
)
def test_the_table_says_how_much_of_how_much(fetched: int, of: int, text: str) -> None:
    assert summary(Progress(state="staging", staged_bytes=fetched, staging_bytes=of)).summary == text


def test_bytes_rate_and_time_are_in_the_status_and_stay_there() -> None:
    shown = {"fetchedBytes": HALFWAY.staged_bytes, "ofBytes": 12 * GIB, "bytesPerSecond": 317009490, "seconds": 10}
    assert summary(HALFWAY).to_document()["staging"] == shown
    later = summary(replace(HALFWAY, state="training", step=3))
    assert later.to_document()["staging"] == shown
    assert later.summary == "3"
    assert summary(Progress(state="training")).staging is None


def test_while_the_gpus_wait_the_job_says_so_and_then_what_it_cost() -> None:
    began = observed(admitted(Phase.RUNNING, *ONE), pod(), progress=progress_update(None, HALFWAY, T0))
    status = reconcile(began, SETTINGS).status
    assert status is not None
    assert (status.phase, status.reason, status.message) == (
        Phase.RUNNING,
        data_staging.REASON,
        "Staging data 3.1 of 12 GiB (302.3 MiB/s); the GPUs are held meanwhile",
    )
    condition = next(one for one in status.conditions if one.type == "Running")
    assert (condition.status, condition.reason, condition.message) == ("True", status.reason, status.message)
    whole = Progress(state="rendezvous", staged_bytes=12 * GIB, staging_bytes=12 * GIB, staging_s=65.0)
    ended = observed(status, pod(), progress=progress_update(status.progress, whole, T0 + 60))
    result = reconcile(ended, SETTINGS)
    assert result.status is not None
    assert (result.status.reason, result.status.message) == (
        "Running",
        "2 workers running in 1 pod; 12 GiB of data staged in 1m5s",
    )
    assert result.event == EventToRecord(
        reason="DataStaged", message="12 GiB of data staged in 1m5s, with the GPUs held"
    )


def test_a_job_without_data_says_nothing_of_it() -> None:
    status = admitted(Phase.RUNNING, *ONE)
    told = progress_update(None, Progress(state="training", step=1), T0)
    result = reconcile(observed(status, pod(), progress=told), SETTINGS)
    assert result.status is not None
    assert (result.status.message, result.event) == (status.message, None)
    assert status_transitions.with_progress(status, told) == result.status
