"""Rows of QuotaRequests: what stands against one, who answered it, and when it ends."""

from __future__ import annotations

from cotenant.dashboard.reading.request_rows import request_row
from cotenant.dashboard.reading.rows import instant

REQUEST = {
    "metadata": {"namespace": "red", "name": "more", "uid": "u", "resourceVersion": "7"},
    "spec": {"queue": "red", "until": "2030-01-31T18:00:00Z", "reason": "camera-ready"},
    "status": {
        "phase": "Granted",
        "approval": {"decision": "Approved", "by": "grace"},
        "granted": {"until": "2030-01-15T18:00:00Z"},
        "conditions": [
            {"type": "Applicable", "status": "True", "message": "all of it adds"},
            {"type": "WithinParents", "status": "False", "message": "queue all has 2 GPUs left"},
            {"type": "Live", "status": "False", "message": "not yet"},
        ],
    },
}


def test_a_row_says_who_answered_what_stands_against_it_and_when_the_grant_ends() -> None:
    row = request_row(REQUEST)
    assert (row.answered_by, row.obstacles) == ("grace", ("queue all has 2 GPUs left",))
    assert row.until == instant("2030-01-15T18:00:00Z"), "the administrator granted it for a shorter time"


def test_a_request_that_cannot_be_read_is_a_row_that_says_so() -> None:
    row = request_row(REQUEST | {"spec": {"until": "never"}, "status": {}})
    assert (row.key, row.phase) == ("red/more", "Unreadable")
