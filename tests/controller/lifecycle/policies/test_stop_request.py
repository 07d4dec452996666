"""The annotation `cotenant.dev/stop` ends a job for good, with its reason, wherever it is in its life."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant import names
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.policies import stop_request
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, observed, pod

ONE = (("n1", 1),)
SETTINGS = Settings()
SAID = "stopped by the sweep at step 200: 14th of 16 at this rung"


def asked(o: Observation) -> Observation:
    assert o.record.job is not None
    metadata = o.record.job.metadata.model_copy(update={"annotations": {names.ANNOTATION_STOP: SAID}})
    return replace(o, record=replace(o.record, job=o.record.job.model_copy(update={"metadata": metadata})))


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING])
def test_a_job_that_holds_gpus_gives_them_back_in_the_same_step(phase: Phase) -> None:
    result = reconcile(asked(observed(admitted(phase, *ONE), pod(ready=True), now=T0 + 50)), SETTINGS)
    assert result.status is not None
    assert (result.status.phase, result.status.reason, result.status.message) == (Phase.FAILED, "Stopped", SAID)
    assert result.status.placement is None


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.SUSPENDED, Phase.INVALID])
def test_a_job_that_waits_never_runs(phase: Phase) -> None:
    result = reconcile(asked(observed(TrainingJobStatus(phase=phase), now=T0 + 50)), SETTINGS)
    assert result.status is not None
    assert (result.status.phase, result.status.message) == (Phase.FAILED, SAID)
    assert result.status.finished_at is not None


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_a_job_that_has_ended_stays_as_it_is(phase: Phase) -> None:
    assert reconcile(asked(observed(TrainingJobStatus(phase=phase), now=T0 + 50)), SETTINGS).status is None


def test_nobody_has_asked_where_the_annotation_is_not_there() -> None:
    assert stop_request.requested(observed(admitted(Phase.RUNNING, *ONE), now=T0 + 50)) is None
