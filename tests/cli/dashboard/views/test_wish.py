"""A view's parameters, read from an address and written into one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.dashboard.views.wish import Wish, paged


@pytest.mark.parametrize(
    ("query", "wish"),
    [
        ({}, Wish()),
        (
            {"page": "3", "q": "Team", "queue": "a", "namespace": "*"},
            Wish(page=3, text="team", queue="a", namespace="*"),
        ),
        ({"page": "0"}, Wish()),
        ({"page": "-1", "rank": "x", "hours": "5"}, Wish()),
        ({"page": "99999999999999999999", "hours": "24"}, Wish(hours=24)),
        ({"days": "7", "user": " ann "}, Wish(days=7, user="ann")),
        ({"days": "-7"}, Wish()),
        ({"page": "³", "show": "a" * 99}, Wish(show="a" * 16)),
    ],
)
def test_what_makes_no_sense_is_left_out(query: dict[str, str], wish: Wish) -> None:
    assert Wish.read(query) == wish


@given(st.dictionaries(st.sampled_from(["page", "namespace", "queue", "q", "show", "hours", "rank"]), st.text()))
def test_any_address_is_read(query: dict[str, str]) -> None:
    wish = Wish.read(query)
    assert wish.address().startswith("?")
    assert len(wish.text) <= 253


def test_another_filter_begins_on_the_first_page() -> None:
    wish = Wish(page=4, queue="a", text="x")
    assert wish.address(page=5) == "?page=5&queue=a&q=x"
    assert wish.address(show="running") == "?queue=a&q=x&show=running"
    assert wish.address(q="a&b=<c>") == "?queue=a&q=a%26b%3D%3Cc%3E"


@given(st.integers(0, 500), st.integers(1, 60), st.integers(1, 50))
def test_pages_together_are_the_list(total: int, page: int, size: int) -> None:
    items = list(range(total))
    pages = paged(items, 1, size).pages
    assert [one for number in range(1, pages + 1) for one in paged(items, number, size).items] == items
    assert paged(items, page, size).page <= pages
