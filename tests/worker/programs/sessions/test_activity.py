"""When an application was used, out of what it answers; a page that is open is no use of it."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_worker.sessions.activity import Activity, of_code_server, of_jupyter, of_terminals

NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z"""


def kernel(state: str, at: str = "2026-01-01T12:00:00.000000Z") -> dict[str, Any]:
    return {"id": "k", "execution_state": state, "last_activity": at, "connections": 1}


@pytest.mark.parametrize(
    ("kernels", "terminals", "found"),
    [
        ([], [], Activity(False, None)),
        ([kernel("idle")], [], Activity(False, NOON)),
        ([kernel("idle"), kernel("busy")], None, Activity(True, NOON)),
        ([kernel("idle")], [{"name": "1", "last_activity": "2026-01-01T12:00:30Z"}], Activity(False, NOON + 30)),
        ([kernel("idle", "2026-01-01T12:00:01")], [], Activity(False, NOON + 1)),
        ([kernel("idle", "yesterday"), "no kernel"], {"error": 1}, Activity(False, None)),
        ({"message": "Forbidden"}, None, Activity(False, None)),
    ],
)
def test_kernels_and_terminals_of_jupyter(kernels: Any, terminals: Any, found: Activity) -> None:
    assert of_jupyter(kernels, terminals) == found


@pytest.mark.parametrize(
    ("health", "found"),
    [
        ({"status": "alive", "lastHeartbeat": NOON * 1000}, Activity(True, NOON)),
        ({"status": "expired", "lastHeartbeat": NOON * 1000}, Activity(False, NOON)),
        ({"status": "expired", "lastHeartbeat": 0}, Activity(False, None)),
        ({"status": "expired", "lastHeartbeat": "now"}, Activity(False, None)),
        (None, Activity(False, None)),
    ],
)
def test_health_of_code_server(health: Any, found: Activity) -> None:
    assert of_code_server(health) == found


def test_terminals_of_a_shell() -> None:
    assert of_terminals([]) == Activity(False, None)
    assert of_terminals([1.0, 3.0, 2.0]) == Activity(False, 3.0)


@pytest.mark.parametrize(
    ("found", "reported"),
    [
        (Activity(True, 100.0), Activity(True, None)),
        (Activity(False, 100.0), Activity(False, 105.0)),
        (Activity(False, 105.0), Activity(False, 105.0)),
        (Activity(False, None), Activity(False, None)),
    ],
)
def test_what_is_reported_changes_seldom(found: Activity, reported: Activity) -> None:
    assert found.rounded() == reported
