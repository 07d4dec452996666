"""The history: which runs are shown, in which order, and what they come to."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.dashboard.reading.run_rows import RunRow
from cotenant.dashboard.views.history import cost_of, history_view
from cotenant.dashboard.views.wish import Wish

NOW = 10 * 86_400.0


def run(name: str, days_ago: float = 0.5, **more: Any) -> RunRow:
    whole: dict[str, Any] = {
        "queue": "a",
        "user": "ann",
        "outcome": "Succeeded",
        "finished": NOW - days_ago * 86_400,
        "gpu_s": 60,
    }
    return RunRow(namespace="red", name=name, **(whole | more))


RUNS = (
    run("old", 9),
    run("failed", 2, outcome="Failed", reason="ExitCode"),
    run("other-user", 3, user="bob"),
    run("other-queue", 4, queue="b"),
    run("deleted", outcome="Deleted", message="gone by hand"),
    run("last", 0.1),
)


@pytest.mark.parametrize(
    ("wish", "shown"),
    [
        (Wish(), ["last", "deleted", "failed", "other-user", "other-queue", "old"]),
        (Wish(show="Failed"), ["failed"]),
        (Wish(show="Deleted"), ["deleted"]),
        (Wish(user="bob"), ["other-user"]),
        (Wish(queue="b"), ["other-queue"]),
        (Wish(days=1), ["last", "deleted"]),
        (Wish(days=7, show="Succeeded"), ["last", "other-user", "other-queue"]),
        (Wish(text="exitcode"), ["failed"]),
        (Wish(text="by hand"), ["deleted"]),
        (Wish(text="red/o"), ["other-user", "other-queue", "old"]),
        (Wish(show="nonsense"), []),
    ],
)
def test_filters_leave_the_newest_first(wish: Wish, shown: list[str]) -> None:
    view = history_view(RUNS, wish, NOW)
    assert [one.name for one in view.runs.items] == shown
    assert view.gpu_s == 60 * len(shown)


def test_outcomes_are_counted_of_what_the_other_filters_leave() -> None:
    assert history_view(RUNS, Wish(show="Failed", queue="a"), NOW).counts == {"Succeeded": 3, "Failed": 1, "Deleted": 1}


@pytest.mark.parametrize(
    ("runs", "cost"),
    [
        ([run("a"), run("b")], ""),
        ([run("a", micros=1_999_999, currency="EUR")], "1.99 EUR"),
        ([run("a", micros=1_006_000, currency="EUR"), run("b", micros=1_006_000, currency="EUR")], "2.01 EUR"),
        ([run("a", micros=1_000_000, currency="EUR"), run("b")], "1.00 EUR + ?"),
        ([run("a", micros=1_000_000, currency="EUR", is_priced_in_part=True)], "1.00 EUR + ?"),
        ([run("a", micros=694, currency="EUR")], "0.00069 EUR"),
        ([], ""),
    ],
    ids=["no prices", "rounded down", "added up first", "one has none", "a class has none", "a short run", "nothing"],
)
def test_money_is_added_up_before_it_is_rounded(runs: list[RunRow], cost: str) -> None:
    assert cost_of(runs) == cost
