"""The list of sessions: those that run first, found by name, application and queue."""

from __future__ import annotations

import pytest

from cotenant.dashboard.reading.session_rows import SessionRow
from cotenant.dashboard.views.sessions import sessions_view
from cotenant.dashboard.views.wish import Wish

ROWS = [
    SessionRow(namespace="a", name="old", application="Shell", queue="a", phase="Suspended", created=1.0),
    SessionRow(namespace="a", name="new", application="JupyterLab", queue="a", phase="Suspended", created=9.0),
    SessionRow(namespace="b", name="busy", application="JupyterLab", queue="b", phase="Running", created=5.0),
]


@pytest.mark.parametrize(
    ("wish", "shown"),
    [
        pytest.param(Wish(), ["b/busy", "a/new", "a/old"], id="those that run, then the newest"),
        pytest.param(Wish(queue="a"), ["a/new", "a/old"], id="of a queue"),
        pytest.param(Wish(text="jupyter"), ["b/busy", "a/new"], id="of an application"),
        pytest.param(Wish(text="a/o"), ["a/old"], id="by name"),
    ],
)
def test_sessions_are_found_and_ordered(wish: Wish, shown: list[str]) -> None:
    view = sessions_view(ROWS, wish)
    assert [one.key for one in view.sessions.items] == shown
    assert view.running == sum(one == "b/busy" for one in shown)
