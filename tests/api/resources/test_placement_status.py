"""A placement as documents: what it must have."""

from typing import Any

import pytest
from pydantic import ValidationError

from cotenant.api.resources.placement_status import PlacementStatus


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
        "priority": None,
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
