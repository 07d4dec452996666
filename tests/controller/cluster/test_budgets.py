"""What queues have spent of their budgets, period by period."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.api.resources.queues import Period, Queue
from cotenant.controller.cluster.budgets import Budgets, end_of, start_of


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


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


def queue(status: dict[str, Any] | None = None, *, gpu_hours: int = 2) -> Queue:
    return Queue.model_validate(
        {
            "apiVersion": "cotenant.dev/v1alpha1",
            "kind": "Queue",
            "metadata": {"name": "red"},
            "spec": {"budget": {"gpuHours": gpu_hours, "period": "Day"}},
            "status": status or {},
        }
    )


def test_a_budget_is_charged_for_what_is_held_and_starts_anew_with_the_period() -> None:
    budgets, noon = Budgets(), moment("2026-11-21T12:00").timestamp()
    spent = []
    for after, held in ((0, 1500), (1800, 1500), (3600, 0), (50_000, 0)):
        budgets.charge({"red": queue()}, {"red": held}, noon + after)
        usage = budgets.usage(queue(), noon + after)
        spent.append((usage.spent, usage.left) if usage else None)
    assert spent == [("0", "2"), ("0.75", "1.25"), ("0.75", "1.25"), ("0", "2")]


def test_a_restart_takes_the_account_up_where_it_was_written() -> None:
    noon = moment("2026-11-21T12:00").timestamp()
    written = {"budget": {"spentMilliGPUSeconds": 3_600_000, "periodStart": "2026-11-21T00:00:00Z"}}
    stale = {"budget": {"spentMilliGPUSeconds": 3_600_000, "periodStart": "2026-11-20T00:00:00Z"}}
    spent = []
    for status in (written, stale):
        budgets = Budgets()
        budgets.charge({"red": queue(status)}, {}, noon)
        spent.append(budgets.spent("red"))
    assert spent == [3_600_000, 0]


def test_a_queue_that_holds_nothing_spends_nothing_and_one_without_an_account_has_spent_nothing() -> None:
    budgets, noon = Budgets(), moment("2026-11-21T12:00").timestamp()
    assert (budgets.spent("red"), budgets.revision) == (0, 0)
    for after in (0, 600):
        budgets.charge({"red": queue()}, {}, noon + after)
    assert (budgets.spent("red"), budgets.spent("blue")) == (0, 0)


def test_the_revision_grows_with_what_is_spent_and_stays_while_nothing_is() -> None:
    budgets, noon = Budgets(), moment("2026-11-21T12:00").timestamp()
    revisions = []
    for after, held in ((0, 0), (10, 0), (20, 500), (30, 500)):
        budgets.charge({"red": queue()}, {"red": held}, noon + after)
        revisions.append(budgets.revision)
    assert revisions == [1, 1, 2, 3]


def test_a_clock_that_goes_back_gives_nothing_back() -> None:
    budgets, noon = Budgets(), moment("2026-11-21T12:00").timestamp()
    for after in (0, 100, 40, 50):
        budgets.charge({"red": queue()}, {"red": 1000}, noon + after)
    assert budgets.spent("red") == 110_000


def test_a_queue_that_has_lost_its_budget_has_no_account() -> None:
    budgets, noon = Budgets(), moment("2026-11-21T12:00").timestamp()
    for after in (0, 100):
        budgets.charge({"red": queue()}, {"red": 1000}, noon + after)
    free = queue().model_copy(update={"spec": queue().spec.model_copy(update={"budget": None})})
    budgets.charge({"red": free}, {"red": 1000}, noon + 200)
    assert (budgets.spent("red"), budgets.usage(free, noon + 200)) == (0, None)


def test_hours_are_shown_to_the_hundredth_and_more_than_the_budget_leaves_nothing() -> None:
    noon = moment("2026-11-21T12:00").timestamp()
    written = {"budget": {"spentMilliGPUSeconds": 3_600_000 * 1_000_000, "periodStart": "2026-11-21T00:00:00Z"}}
    usage = Budgets().usage(queue(written, gpu_hours=1_000_001), noon)
    assert usage is not None
    assert (usage.spent, usage.left) == ("1000000", "1")
    over = Budgets().usage(queue(written, gpu_hours=999), noon)
    assert over is not None
    assert over.left == "0"


def test_the_end_of_a_period_is_named_for_people() -> None:
    now = moment("2026-01-31T23:59:59+00:00").timestamp()
    assert Budgets().until(queue(), now) == "2026-02-01T00:00Z"
