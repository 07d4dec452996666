"""`spec.maxRuntime` counts what all attempts have run, and not the time between them."""

from __future__ import annotations

import pytest

from cotenant.api.resources.trainingjob_status import UsageStatus
from cotenant.controller.lifecycle.policies import max_runtime
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import T0, admitted, observed

ONE = (("n1", 1),)
SETTINGS = Settings()


@pytest.mark.parametrize(("ran_before", "over_at"), [(0, T0 + 310), (100, T0 + 210), (300, T0 + 10)])
def test_the_deadline_is_the_start_of_running_and_what_is_left(ran_before: int, over_at: float) -> None:
    usage = UsageStatus(run_seconds=ran_before) if ran_before else None
    for now in (T0 + 20, T0 + 100):
        o = observed(admitted(Phase.RUNNING, *ONE, usage=usage), now=now, spec={"maxRuntime": "5m"})
        assert max_runtime.deadline(o, SETTINGS) == over_at


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.EVICTING])
def test_only_a_running_job_has_a_deadline(phase: Phase) -> None:
    o = observed(admitted(phase, *ONE), now=T0 + 9999, spec={"maxRuntime": "5m"})
    assert (max_runtime.deadline(o, SETTINGS), max_runtime.ending(o, SETTINGS)) == (None, None)


def test_a_job_without_a_limit_has_no_deadline() -> None:
    o = observed(admitted(Phase.RUNNING, *ONE), now=T0 + 9999)
    assert (max_runtime.deadline(o, SETTINGS), max_runtime.ending(o, SETTINGS)) == (None, None)


@pytest.mark.parametrize(("now", "ends"), [(T0 + 309, False), (T0 + 310, True), (T0 + 311, True)])
def test_it_ends_at_the_second_of_its_deadline(now: float, ends: bool) -> None:
    ending = max_runtime.ending(observed(admitted(Phase.RUNNING, *ONE), now=now, spec={"maxRuntime": "5m"}), SETTINGS)
    assert (ending is not None) is ends
    if ending is not None:
        assert (ending.event, ending.reason) == (LifecycleEvent.DEADLINE, "MaxRuntimeExceeded")
        assert ending.message == "spec.maxRuntime (300 s) is over"
