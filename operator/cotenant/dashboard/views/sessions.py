"""Sessions by their phase. Running ones come first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cotenant.dashboard.reading.session_rows import SessionRow
from cotenant.dashboard.views.wish import Paged, Wish, paged

ROWS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsView:
    running: int
    sessions: Paged[SessionRow]


def sessions_view(sessions: Iterable[SessionRow], wish: Wish) -> SessionsView:
    """The page: running sessions, then the others, the newest first."""
    matching = [one for one in sessions if wish.takes(one.queue, one.key, one.application)]
    matching.sort(key=lambda one: (not one.runs, -one.created, one.key))
    return SessionsView(running=sum(one.runs for one in matching), sessions=paged(matching, wish.page, ROWS))
