"""Why an agent does not start stands in its GPUNode, beside what was published there before."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_agent.reports.unreadable_gpus import MESSAGE_CHARS_MAX, conditions, patch

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


@pytest.mark.parametrize(
    ("before", "unreadable", "want"),
    [
        pytest.param([TOLD], (), [], id="all GPUs are listed"),
        pytest.param([LOWERED], ("GPU 3: Unknown Error",), [("GPU 3: Unknown Error", "2026-01-01T00:01:00Z")],
                     id="one is not"),
        pytest.param([TOLD], ("GPU 3: a", "GPU 4: b"), [("GPU 3: a; GPU 4: b", "2026-01-01T00:00:00Z")],
                     id="two are not, since earlier"),
    ],
)  # fmt: skip
def test_a_running_agent_names_the_gpus_that_the_driver_does_not_list(
    before: list[Any], unreadable: tuple[str, ...], want: list[tuple[str, str]]
) -> None:
    found = conditions(before, unreadable, "2026-01-01T00:01:00Z")
    assert [(one["message"].partition("handed out: ")[2], one["lastTransitionTime"]) for one in found] == want


def test_a_long_reason_fits_the_schema() -> None:
    (condition,) = patch({}, "x" * 5000, NOW)["conditions"]
    assert len(condition["message"]) <= MESSAGE_CHARS_MAX
