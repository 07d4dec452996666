"""A share that is made smaller once its peak is known, and larger again where that was too little. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.placements import from_placement
from cotenant.api.resources.placement_status import Isolation
from cotenant.api.resources.trainingjob_status import SuggestionStatus, TrainingJobStatus
from cotenant.controller.informers.job_memory import MeasuredPeak
from cotenant.controller.lifecycle.policies.share_suggestion import takes_of_another
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, exited, observed, placement_on, pod
from tests.support.reconcile_cases import SETTINGS

AUTO = {"gpu": {"memory": "32Gi", "computeFraction": "0.4", "autoSize": True}, "workers": 1}
FIXED = {"gpu": {"memory": "32Gi", "computeFraction": "0.4"}, "workers": 1}
TWELVE = SuggestionStatus(memory_mib=12_288, peak_mib=9_000, basis="", at=T0)


def running(suggestion: SuggestionStatus | None = None) -> TrainingJobStatus:
    base = admitted(Phase.RUNNING, ("n1", 1), suggestion=suggestion)
    levelled = reconcile(observed(base, pod(ready=True), spec=AUTO), SETTINGS).status
    return levelled or base


@pytest.mark.parametrize(
    ("before", "peak", "memory_mib"),
    [
        pytest.param(None, MeasuredPeak(1, 9_000, 12_288), 12_288, id="the first peak"),
        pytest.param(TWELVE, MeasuredPeak(1, 14_000, 18_432), 18_432, id="a higher one"),
        pytest.param(TWELVE, MeasuredPeak(1, 4_000, 5_120), None, id="a suggestion never falls"),
        pytest.param(TWELVE, None, None, id="nothing new"),
    ],
)
@pytest.mark.parametrize("spec", [AUTO, FIXED], ids=["autoSize", "for information"])
def test_a_higher_peak_is_written(
    before: SuggestionStatus | None, peak: MeasuredPeak | None, memory_mib: int | None, spec: dict[str, Any]
) -> None:
    result = reconcile(observed(running(before), pod(ready=True), spec=spec, peak=peak), SETTINGS)
    if memory_mib is None:
        assert result.status is None
    else:
        assert result.status is not None
        assert result.status.suggestion is not None
        assert result.status.suggestion.memory_mib == memory_mib


def out_of_memory(spec: dict[str, Any], held_mib: int, reason: str = "OutOfGPUMemory") -> TrainingJobStatus:
    """The status after an attempt that held so much has ended so."""
    held = from_placement(placement_on(("n1", 1), memory_mib=held_mib), admitted_at=T0, isolation=Isolation.NONE)
    status = running(TWELVE).model_copy(update={"placement": held})
    o = observed(status, pod(end=exited(1, reason=reason, rank=0, message="rank 0: CUDA out of memory")), spec=spec)
    changed = reconcile(o, SETTINGS).status
    assert changed is not None
    return changed


def test_less_than_it_asked_for_that_was_too_little_is_no_failure_and_it_gets_all() -> None:
    changed = out_of_memory(AUTO, 12_288)
    assert (changed.phase, changed.failures, changed.reason) == (Phase.PENDING, 0, "ShareTooSmall")
    assert changed.suggestion is not None
    assert (changed.suggestion.memory_mib, changed.suggestion.basis) == (32_768, "12Gi were too little in attempt 1")
    assert changed.message is not None
    assert changed.message.endswith("it is tried again with 32Gi, and that counts as no failure")


@pytest.mark.parametrize(
    ("spec", "held_mib", "reason"),
    [
        pytest.param(AUTO, 32_768, "OutOfGPUMemory", id="it had all that it asked for"),
        pytest.param(FIXED, 12_288, "OutOfGPUMemory", id="it does not let itself be made smaller"),
        pytest.param(AUTO, 12_288, "UserError", id="it failed for another reason"),
    ],
)
def test_every_other_failure_is_its_own(spec: dict[str, Any], held_mib: int, reason: str) -> None:
    changed = out_of_memory(spec, held_mib, reason)
    assert (changed.phase, changed.failures) == (Phase.FAILED, 1)


def test_a_new_job_takes_what_was_suggested_to_another_like_it() -> None:
    o = observed(TrainingJobStatus(phase=Phase.PENDING), spec=AUTO, of_another=TWELVE)
    result = reconcile(o, SETTINGS)
    assert result.status is not None
    assert result.status.suggestion is not None
    assert (result.status.suggestion.memory_mib, result.status.phase) == (12_288, Phase.PENDING)
    assert result.event is not None
    assert result.event.message == (
        "spec.gpu.autoSize: it takes 12Gi of a GPU, or what it asks for where that is less; an earlier job of this name"
        " had 9000Mi at most"
    )


@pytest.mark.parametrize(
    ("spec", "status", "takes"),
    [
        (AUTO, TrainingJobStatus(phase=Phase.PENDING), True),
        (FIXED, TrainingJobStatus(phase=Phase.PENDING), False),
        (AUTO, TrainingJobStatus(phase=Phase.PENDING, attempts=1), False),
        (AUTO, TrainingJobStatus(phase=Phase.PENDING, suggestion=TWELVE), False),
        (AUTO, admitted(Phase.RUNNING, ("n1", 1)), False),
    ],
    ids=["new", "not auto-sized", "has run", "has its own", "runs"],
)
def test_only_a_job_of_which_nothing_was_measured_takes_it(
    spec: dict[str, Any], status: TrainingJobStatus, takes: bool
) -> None:
    assert takes_of_another(observed(status, spec=spec).record) is takes
