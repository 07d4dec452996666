"""Bars of queues: widths that compare, from the operator's tree and from what a namespace may see."""

from __future__ import annotations

from cotenant.dashboard.views.queue_bars import WIDE, QuotaBar, local_view, tree_view
from cotenant.dashboard.views.wish import Wish
from tests.cli.dashboard.played_cluster import queue_tree


def test_bars_of_one_page_are_drawn_to_one_scale() -> None:
    rows = tree_view(queue_tree(), Wish()).rows.items
    assert [(row.name, row.depth) for row in rows[:2]] == [("research", 0), ("vision", 1)]
    (bar,) = rows[1].bars
    each = WIDE / 32
    assert bar == QuotaBar(
        label="H100",
        own=8 * each,
        borrowed=round(5 * each, 1),
        guaranteed=8 * each,
        limit=16 * each,
        says="13 used of 8 guaranteed, limit 16",
    )
    assert rows[2].bars[1].limit is None
    assert "no limit" in rows[2].bars[1].says


def test_the_arithmetic_is_the_operators() -> None:
    row = tree_view(queue_tree(), Wish(text="vision")).rows.items[0]
    assert row.arithmetic == (
        "borrows 5 of 32 (H100): 15.62 %",
        "15.62 % + 0.42 % by past borrowing, / weight 1",
        "= 16.05 %: the lower share goes first",
    )


def test_a_local_queue_is_a_bar_too() -> None:
    quota = {"gpuClass": "H100", "guaranteed": 4, "limit": 8, "used": 6, "free": 1}
    status = {"used": 6, "usedHere": 2, "free": 1, "guaranteed": 4, "borrowed": 2, "quotas": [quota]}
    (row,) = local_view([{"metadata": {"namespace": "red", "name": "a"}, "status": status}], Wish()).rows.items
    assert (row.namespace, row.arithmetic) == ("red", ("2 of it by jobs of this namespace", "1 free now"))
    assert [(bar.own, bar.borrowed, bar.limit) for bar in row.bars] == [(500.0, 250.0, 1000.0)]


def test_what_is_used_beyond_the_guaranteed_gpus_that_exist_is_borrowed() -> None:
    (vision,) = (one for one in queue_tree() if one["metadata"]["name"] == "vision")
    vision["status"]["quotas"][0] |= {"effective": "6", "used": "8"}
    (row,) = tree_view([vision], Wish()).rows.items
    (bar,) = row.bars
    assert (bar.own, bar.borrowed, bar.guaranteed) == (6 * WIDE / 16, 2 * WIDE / 16, 8 * WIDE / 16)
    assert bar.says == "8 used of 8 guaranteed (of which 6 are there), limit 16"


def test_an_empty_tree_is_an_empty_page() -> None:
    assert tree_view([], Wish()).rows.total == 0
    assert local_view([{"metadata": {"namespace": "red", "name": "a"}}], Wish()).rows.total == 1
