"""Updates of a page, as server-sent events: the page is drawn again when its sources change.

An update is the page's whole `main`, so an updated page equals the page after a reload. Changes that come close
together are one update.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from cotenant.dashboard.access.sessions import STREAMS_MAX, Viewer
from cotenant.dashboard.markup import markup
from cotenant.dashboard.pages import Drawn, Page, namespace_of
from cotenant.dashboard.reading.sources import news, settled
from cotenant.dashboard.views.wish import Wish

GATHER_S: Final = 0.4
"""Changes within this many seconds are one update."""
QUIET_S: Final = 15.0
"""After this many seconds without a change a page is drawn again, and the connection stays open."""


@dataclass(slots=True)
class Drawing:
    """One page for one person. It can be drawn repeatedly."""

    viewer: Viewer
    page: Page
    wish: Wish
    clock: Callable[[], float]
    _drawn: Drawn | None = None

    async def settle(self, most_s: float) -> bool:
        """Read what the page needs, but at most this long. Returns whether everything is there.

        What a page needs may depend on what it has read. Two rounds are enough for every page.
        """
        clock = asyncio.get_running_loop().time
        ends = clock() + most_s
        for _ in range(2):
            self._drawn = self._now()
            if not await settled(self._drawn.sources, max(0.0, ends - clock())):
                return False
        return True

    async def news(self, most_s: float) -> None:
        await news((self._drawn or self._now()).sources, most_s)

    def draw(self) -> str:
        """The page's `main`."""
        self._drawn = drawn = self._now()
        context: dict[str, Any] = {
            "page": self.page,
            "wish": self.wish,
            "notes": drawn.notes,
            "is_loading": not all(source.ready.is_set() for source in drawn.sources),
            "colour": self.viewer.palette.colour,
            "namespace": namespace_of(self.viewer, self.wish),
        }
        return markup(self.page.template, context | dict(drawn.context()))

    def _now(self) -> Drawn:
        return self.page.draw(self.viewer, self.wish, self.clock())


async def stream(request: web.Request, drawing: Drawing, is_there: Callable[[], bool]) -> web.StreamResponse:
    """Send the page whenever it looks different, until the reader leaves or their session ends."""
    viewer = drawing.viewer
    if viewer.streams >= STREAMS_MAX:
        raise web.HTTPTooManyRequests(text="so many pages of one session are kept up to date already")
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    )
    viewer.streams += 1
    try:
        await response.prepare(request)
        await _send(response, drawing, is_there)
        await response.write(b"event: over\ndata:\n\n")
    except ConnectionResetError:
        pass
    finally:
        viewer.streams -= 1
    return response


async def _send(response: web.StreamResponse, drawing: Drawing, is_there: Callable[[], bool]) -> None:
    sent = ""
    while is_there():
        shown = drawing.draw()
        if shown != sent:
            await response.write(b"event: view\ndata: " + json.dumps(shown).encode() + b"\n\n")
            sent = shown
        else:
            await response.write(b": here\n\n")
        await drawing.news(QUIET_S)
        await asyncio.sleep(GATHER_S)
