"""Why an agent does not start stands in its GPUNode, beside what was published there before."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_agent.reports.unreadable_gpus import MESSAGE_CHARS_MAX, patch

LOWERED = {"type": "MemoryIsolationLowered", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
TOLD = {"type": "GPUsUnreadable", "status": "True", "message": "old", "lastTransitionTime": "2026-01-01T00:00:00Z"}
NOW = 1_767_225_660.0
"""2026-01-01T00:01:00Z"""


@pytest.mark.parametrize(
    ("status", "others", "since"),
    [
        pytest.param({}, [], "2026-01-01T00:01:00Z", id="the first time"),
        pytest.param({"conditions": [LOWERED]}, [LOWERED], "2026-01-01T00:01:00Z", id="beside another condition"),
        pytest.param({"conditions": [TOLD]}, [], "2026-01-01T00:00:00Z", id="again: since when does not change"),
    ],
)
def test_the_condition_says_why_and_since_when(status: dict[str, Any], others: list[Any], since: str) -> None:
    merged = patch(status, "no driver", NOW)
    *kept, condition = merged["conditions"]
    assert kept == others
    assert (condition["message"], condition["lastTransitionTime"]) == ("no driver", since)


def test_gpus_that_were_published_and_the_heartbeat_are_left_alone() -> None:
    assert patch({"gpus": [{"uuid": "GPU-1"}], "heartbeat": "2026-01-01T00:00:00Z"}, "why", NOW).keys() == {
        "conditions",
        "health",
    }


def test_a_long_reason_fits_the_schema() -> None:
    (condition,) = patch({}, "x" * 5000, NOW)["conditions"]
    assert len(condition["message"]) <= MESSAGE_CHARS_MAX
