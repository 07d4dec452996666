"""When an agent was last heard."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.api.scalars.agent_reports import heard_at, stored_at

OF_SPEC = {"manager": "agent", "operation": "Update", "time": "2026-01-01T00:00:00Z"}
OF_AGENT = {"manager": "agent", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:01:00Z"}
OF_OTHER = {"manager": "kubectl", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:00:30Z"}


@pytest.mark.parametrize(
    ("entries", "minute"),
    [([OF_SPEC, OF_AGENT, OF_OTHER], 1), ([OF_SPEC], None), ([], None)],
    ids=["the last write of the status counts", "other writes do not", "nothing is known of who wrote"],
)
def test_the_api_servers_own_time_of_the_last_write_of_a_status_is_read(
    entries: list[dict[str, Any]], minute: int | None
) -> None:
    read = stored_at({"metadata": {"managedFields": entries}})
    assert read == (None if minute is None else datetime(2026, 1, 1, 0, minute, tzinfo=UTC))


def test_an_agent_whose_clock_is_wrong_was_heard_when_its_report_was_stored() -> None:
    behind = {"metadata": {"managedFields": [OF_AGENT]}, "status": {"heartbeat": "2026-01-01T00:00:00Z"}}
    assert heard_at(behind) == stored_at(behind)
    assert heard_at({"status": behind["status"]}) == datetime(2026, 1, 1, tzinfo=UTC)
    assert heard_at({"metadata": behind["metadata"]}) is None
