"""Amounts of a queue, added up once; and the jobs that nobody has to look at any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.controller.cluster.budgets.held_by_queue import HeldBelow, HeldByQueue
from cotenant.decision_log.showback.meters import Meter, Span

RUNS = Meter(uid="a", queue="red", current=Span(gpu_class="H100", milli=1000, begun=100))
OVER = Meter(uid="b", queue="red", last=Span(gpu_class="A100", milli=500, begun=100, ended=200, amount=50_000))


@pytest.mark.parametrize(
    ("since", "until", "held"),
    [
        pytest.param(90, 150, {"H100": 50_000, "A100": 25_000}, id="while both run"),
        pytest.param(150, 250, {"H100": 100_000, "A100": 25_000}, id="over the end of one"),
        pytest.param(200, 250, {"H100": 50_000}, id="after it"),
    ],
)
def test_a_queue_has_held_what_its_jobs_have_by_class(since: int, until: int, held: dict[str, int]) -> None:
    of = HeldByQueue([RUNS, OVER, replace(RUNS, uid="c", queue="blue")], {}, 0)
    assert {name: amount for name, amount in of.between("red", since, until, first=True).items() if amount} == held


@pytest.mark.parametrize(
    ("before", "news"),
    [
        pytest.param(OVER, 0, id="known as it is"),
        pytest.param(replace(OVER, before=7), -7, id="charged for too much before"),
        pytest.param(None, 50_000, id="never seen, by a reader that has read"),
    ],
)
def test_a_job_that_is_over_counts_as_far_as_it_is_news(before: Meter | None, news: int) -> None:
    of = HeldByQueue([OVER], {} if before is None else {"b": before}, 300)
    found = [of.between("red", 300, 310, first=first).total() for first in (True, False)]
    assert found == [news, 0]


def test_a_budget_counts_its_queue_those_below_it_and_jobs_that_went() -> None:
    blue = replace(RUNS, uid="c", queue="blue")
    below = HeldBelow(HeldByQueue([RUNS, OVER, blue], {}, 0), {"red", "green"}, [replace(RUNS, uid="d")])
    assert below.between(300, 310, first=False) == {"H100": 20_000}
    assert (below.milli(), below.milli_at(150), below.milli_at(50)) == (1000, 1500, 0)
