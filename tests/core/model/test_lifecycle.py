"""The state machine of a TrainingJob: what is final, and what is reached from where."""

from __future__ import annotations

import pytest

from cotenant.core.model.lifecycle import HOLDING, TERMINAL, TRANSITIONS, LifecycleEvent, Phase, next_phase


def test_only_success_and_failure_are_final() -> None:
    assert {Phase.SUCCEEDED, Phase.FAILED} == TERMINAL


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in TERMINAL])
def test_every_phase_that_is_not_final_can_reach_a_final_one(phase: Phase) -> None:
    reached = {phase}
    while True:
        more = {after for (before, _), after in TRANSITIONS.items() if before in reached} | reached
        if more == reached:
            break
        reached = more
    assert reached & TERMINAL


def test_a_job_that_holds_gpus_waits_again_only_after_it_gave_them_back() -> None:
    for (phase, event), after in TRANSITIONS.items():
        if phase in HOLDING and after is Phase.PENDING:
            assert (phase, event) == (Phase.EVICTING, LifecycleEvent.RELEASED)


def test_an_event_that_does_not_apply_to_the_phase_changes_nothing() -> None:
    assert next_phase(Phase.SUCCEEDED, LifecycleEvent.EVICTED) is None
    assert next_phase(Phase.PENDING, LifecycleEvent.RELEASED) is None
