"""The status of a job as documents: what JSON cannot carry, and what a placement must have."""

from typing import Any

import pytest
from pydantic import ValidationError

from cotenant.api.resources.trainingjob_status import PlacementStatus, ProgressStatus, TrainingJobStatus


def test_metrics_that_json_has_no_word_for_are_texts() -> None:
    metrics = {"loss": float("nan"), "peak": float("inf"), "low": float("-inf"), "steps": 3, "kept": 0.5}
    shown = {"loss": "nan", "peak": "inf", "low": "-inf", "steps": 3, "kept": 0.5}
    assert ProgressStatus.model_validate({"metrics": metrics}).metrics == shown
    assert TrainingJobStatus.model_validate({"results": metrics}).results == shown


def placement(**changes: Any) -> dict[str, Any]:
    gpu = {"uuid": "GPU-1", "memoryMiB": 81920, "computeMilli": 1000}
    nodes = [{"node": "n", "ranks": [{"rank": 0, "gpus": [gpu | changes.pop("gpu", {})]}]}]
    return {"nodes": nodes, "admittedAt": "2026-01-01T00:00:00Z", "workers": 1, **changes}


def test_a_placement_is_read_and_written_by_the_same_names() -> None:
    read = PlacementStatus.model_validate(placement(servers=2))
    assert read.model_dump(mode="json", by_alias=True) == {
        **placement(servers=2),
        "isolation": "None",
        "backfilledUntil": None,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": []},
        {"workers": 0},
        {"servers": 65},
        {"gpu": {"computeMilli": 1001}},
        {"gpu": {"uuid": ""}},
        {"gpu": {"memoryMiB": -1}},
    ],
    ids=str,
)
def test_a_placement_that_gives_nothing_or_too_much_is_refused(changes: dict[str, Any]) -> None:
    PlacementStatus.model_validate(placement())
    with pytest.raises(ValidationError):
        PlacementStatus.model_validate(placement(**changes))


def test_one_condition_of_a_type() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "r", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert len(TrainingJobStatus.model_validate({"conditions": [condition]}).conditions) == 1
    with pytest.raises(ValidationError, match="the type 'Ready' appears twice"):
        TrainingJobStatus.model_validate({"conditions": [condition, condition]})
