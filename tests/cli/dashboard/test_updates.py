"""Updates of a page: when it is drawn anew."""

from __future__ import annotations

from typing import Any, NoReturn

from cotenant.dashboard.access.sessions import Viewer
from cotenant.dashboard.pages import Drawn, Page
from cotenant.dashboard.updates import Drawing
from cotenant.dashboard.views.wish import Wish
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.support.fake_kube import FakeKube


async def test_waiting_for_what_a_page_needs_makes_no_view() -> None:
    def view() -> NoReturn:
        raise AssertionError("of a large cluster a view takes its time, and one that waits shows none")

    def draw(*_: Any) -> Drawn:
        return Drawn([], view)

    page = Page("/", "Page", "overview.html", draw)
    assert await Drawing(Viewer(FakeCaller(FakeKube()), "alice"), page, Wish(), lambda: 0.0).settle(1.0)
