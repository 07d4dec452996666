"""The status of a job as documents: what JSON cannot carry."""

import pytest
from pydantic import ValidationError

from cotenant.api.resources.trainingjob_status import ProgressStatus, TrainingJobStatus


def test_metrics_that_json_has_no_word_for_are_texts() -> None:
    metrics = {"loss": float("nan"), "peak": float("inf"), "low": float("-inf"), "steps": 3, "kept": 0.5}
    shown = {"loss": "nan", "peak": "inf", "low": "-inf", "steps": 3, "kept": 0.5}
    assert ProgressStatus.model_validate({"metrics": metrics}).metrics == shown
    assert TrainingJobStatus.model_validate({"results": metrics}).results == shown


def test_one_condition_of_a_type() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "r", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert len(TrainingJobStatus.model_validate({"conditions": [condition]}).conditions) == 1
    with pytest.raises(ValidationError, match="the type 'Ready' appears twice"):
        TrainingJobStatus.model_validate({"conditions": [condition, condition]})
