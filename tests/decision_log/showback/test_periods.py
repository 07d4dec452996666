"""Days, weeks and months of budgets and bills."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cotenant.core.model.objects import Period
from cotenant.decision_log.showback.periods import end_of, periods_within, shown, start_of


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("period", "now", "start", "end"),
    [
        (Period.DAY, "2026-11-21T15:00", "2026-11-21T00:00", "2026-11-22T00:00"),
        (Period.WEEK, "2026-11-21T15:00", "2026-11-16T00:00", "2026-11-23T00:00"),
        (Period.WEEK, "2026-11-16T00:00", "2026-11-16T00:00", "2026-11-23T00:00"),
        (Period.MONTH, "2026-12-31T23:59", "2026-12-01T00:00", "2027-01-01T00:00"),
        (Period.MONTH, "2028-02-29T12:00", "2028-02-01T00:00", "2028-03-01T00:00"),
    ],
    ids=str,
)
def test_periods_begin_at_midnight_utc(period: Period, now: str, start: str, end: str) -> None:
    begun = start_of(period, moment(now))
    assert (begun, end_of(period, begun)) == (moment(start), moment(end))


def test_a_time_is_cut_where_months_begin() -> None:
    found = periods_within(Period.MONTH, moment("2026-01-30T12:00"), moment("2026-03-01T00:00"))
    assert [(shown(since), shown(until)) for since, until in found] == [
        ("2026-01-30T12:00Z", "2026-02-01T00:00Z"),
        ("2026-02-01T00:00Z", "2026-03-01T00:00Z"),
    ]
