"""Which statuses of queues are worth a write."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.reports.queue_status import worth_a_write


@pytest.mark.parametrize(
    ("change", "written", "worth"),
    [
        pytest.param({}, {}, False, id="nothing changed"),
        pytest.param({"used": "1"}, {}, True, id="usage changed"),
        pytest.param({"pastBorrowing": {"at": "later"}}, {"pastBorrowing": {}}, False, id="only time has passed"),
        pytest.param({"pastBorrowing": {"at": "now"}}, {"used": "1"}, True, id="it was never written"),
        pytest.param({"used": "1", "pastBorrowing": {}}, {"pastBorrowing": {}}, True, id="it goes along with others"),
    ],
)
def test_past_borrowing_costs_no_writes_of_its_own(change: Any, written: Any, worth: bool) -> None:
    assert worth_a_write(change, written) is worth
