"""Periods of budgets and bills: a day, a week from Monday, a calendar month, all from 00:00 UTC. In Unix seconds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cotenant.core.model.objects import Period


def start_of(period: Period, at: int) -> int:
    """Beginning of the period that contains `at`."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period is Period.WEEK:
        day -= timedelta(days=day.weekday())
    return int((day.replace(day=1) if period is Period.MONTH else day).timestamp())


def end_of(period: Period, start: int) -> int:
    """Beginning of the period after the one that begins at `start`."""
    if period is Period.MONTH:
        return int((datetime.fromtimestamp(start, UTC) + timedelta(days=32)).replace(day=1).timestamp())
    return start + (1 if period is Period.DAY else 7) * 86_400


def periods_within(period: Period, since: int, until: int) -> Iterator[tuple[int, int]]:
    """Parts of [since, until) that lie in one period each, earliest first."""
    while since < until:
        end = min(until, end_of(period, start_of(period, since)))
        yield since, end
        since = end


def shown(at: int) -> str:
    """`2026-01-31T00:00Z`, for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%MZ")
