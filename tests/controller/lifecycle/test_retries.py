"""Which attempts count against a job."""

from __future__ import annotations

import pytest

from cotenant import names
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import admitted, exited, observed, pod
from tests.controller.lifecycle.reconcile_cases import ONE, SETTINGS


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
