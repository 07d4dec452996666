"""The time of the cluster: this machine's clock may be wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from cotenant.cli.terminal.clock import Clock

HERE = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def heard(*dates: str | None) -> datetime:
    """The time after answers with these headers, on a machine where it is twelve."""
    clock = Clock(lambda: HERE)
    for date in dates:
        clock.note(date)
    return clock.now()


@pytest.mark.parametrize(
    ("ahead", "counts"),
    [
        pytest.param(timedelta(hours=1), timedelta(hours=1), id="this machine is an hour behind"),
        pytest.param(timedelta(minutes=-10), timedelta(minutes=-10), id="this machine is ten minutes ahead"),
        pytest.param(timedelta(seconds=-4), timedelta(), id="the answer took some seconds"),
    ],
)
def test_the_time_is_that_of_the_cluster(ahead: timedelta, counts: timedelta) -> None:
    assert heard(format_datetime(HERE + ahead, usegmt=True)) == HERE + counts


@pytest.mark.parametrize("date", [None, "", "yesterday", "Sat, 99 Nov 2026 08:26:09 GMT"])
def test_an_answer_without_a_time_changes_nothing(date: str | None) -> None:
    late = HERE + timedelta(hours=1)
    assert (heard(date), heard(format_datetime(late, usegmt=True), date)) == (HERE, late)
