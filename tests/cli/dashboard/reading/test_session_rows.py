"""Rows of Sessions, also of those that say nothing yet, or nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.dashboard.reading.session_rows import session_row
from tests.cli.dashboard.played_cluster import NOW, lab

NAMED = {"metadata": {"namespace": "speech", "name": "lab"}}


def test_a_row_has_what_the_page_shows() -> None:
    row = session_row(lab(NOW))
    assert (row.key, row.application, row.queue, row.job) == ("speech/lab", "JupyterLab", "speech", "lab-session")
    assert (row.runs, row.serves) == (True, True)
    now = NOW.timestamp()
    assert [at and at - now for at in (row.started, row.active, row.suspends, row.ends)] == [-5400, -1500, 300, 36_000]


@pytest.mark.parametrize(
    ("document", "phase"),
    [
        (NAMED, "Pending"),
        (NAMED | {"spec": {"application": "Shell"}}, "Pending"),
        (NAMED | {"spec": [], "status": "x"}, "Unreadable"),
    ],
    ids=["new", "a shell", "nonsense"],
)
def test_what_is_not_there_is_left_out(document: dict[str, Any], phase: str) -> None:
    row = session_row(document)
    assert (row.key, row.phase, row.runs) == ("speech/lab", phase, False)
    assert (row.queue, row.message, row.started, row.ends, row.serves) == ("", "", None, None, document == NAMED)
