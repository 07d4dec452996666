"""The order of requests for quota, and which of them are shown."""

from __future__ import annotations

import pytest

from cotenant.dashboard.reading.request_rows import RequestRow
from cotenant.dashboard.views.requests import requests_view
from cotenant.dashboard.views.wish import Wish

REQUESTS = [
    RequestRow(namespace="red", name="old", phase="Pending", queue="red", created=1.0, reason="Paper"),
    RequestRow(namespace="red", name="new", phase="Invalid", queue="red", created=9.0),
    RequestRow(namespace="blue", name="first", phase="Granted", queue="blue", created=2.0),
    RequestRow(namespace="blue", name="second", phase="Granted", queue="blue", created=3.0),
    RequestRow(namespace="blue", name="gone", phase="Expired", queue="blue", created=4.0),
]


@pytest.mark.parametrize(
    ("wish", "shown"),
    [
        pytest.param(Wish(), ["red/old", "red/new"], id="whoever has waited longest for an answer is first"),
        pytest.param(Wish(show="granted"), ["blue/second", "blue/first"], id="of the others the newest is first"),
        pytest.param(Wish(show="over"), ["blue/gone"], id="those that are over"),
        pytest.param(Wish(show="nonsense", text="paper"), ["red/old"], id="found by what it is for"),
        pytest.param(Wish(queue="blue"), [], id="of another queue"),
    ],
)
def test_requests_are_shown_by_what_became_of_them(wish: Wish, shown: list[str]) -> None:
    assert [one.key for one in requests_view(REQUESTS, wish).requests.items] == shown


def test_every_standing_is_counted_whichever_is_shown() -> None:
    assert requests_view(REQUESTS, Wish(show="over")).counts == {"waiting": 2, "granted": 2, "over": 1}
