"""Login sessions, found by a cookie. They are kept in memory, limited in number and time. Of a cookie only the digest
is kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from cotenant.controller.client.kube import Document
from cotenant.dashboard.reading.caller_client import CallerClient, Scope
from cotenant.dashboard.reading.progress_trace import ProgressTraces
from cotenant.dashboard.reading.sources import UNAUTHENTICATED, Asked, Followed, Source
from cotenant.dashboard.views.tenants import Palette

T = TypeVar("T")
SESSIONS_MAX: Final = 500
SESSIONS_OF_ONE: Final = 8
"""At most this many sessions per user. A new login ends the oldest session of the same user only."""
IDLE_S: Final = 3600.0
AT_MOST_S: Final = 12 * 3600.0
SOURCES_MAX: Final = 32
STREAMS_MAX: Final = 8
"""At most this many pages of one session are updated at one time."""


@dataclass(eq=False, repr=False)
class Viewer:
    """One logged-in person, with what is read for them. Only `client` has the credentials."""

    client: CallerClient
    user: str
    namespace: str = ""
    """The namespace that is shown first; empty for all."""
    streams: int = 0
    traces: ProgressTraces = field(default_factory=ProgressTraces)
    palette: Palette = field(default_factory=Palette)
    refused_form: tuple[str, str] = ("", "")
    """Path of the page whose form the API server refused last, and the reason. Empty if it accepted the last form."""
    _sources: OrderedDict[Hashable, Source[Any]] = field(default_factory=OrderedDict)

    def follow(self, scope: Scope, read: Callable[[Document], T]) -> Followed[T]:
        """Rows of a scope. All pages that show the scope share them."""
        source: Followed[T] = self._source(scope, lambda: Followed(self.client, scope, read))
        return source

    def ask(self, key: Hashable, ask: Callable[[], Awaitable[T]], none_yet: T, every_s: float) -> Asked[T]:
        """The answer stored under a key; `none_yet` until it arrives."""
        source: Asked[T] = self._source(key, lambda: Asked(ask, none_yet, every_s))
        return source

    def _source(self, key: Hashable, make: Callable[[], Any]) -> Any:
        source = self._sources.get(key)
        if source is None:
            while len(self._sources) >= SOURCES_MAX:
                _, oldest = self._sources.popitem(last=False)
                oldest.cancel()
            source = self._sources[key] = make()
        self._sources.move_to_end(key)
        source.look()
        return source

    @property
    def is_refused(self) -> bool:
        """True if the API server no longer accepts the caller: their token has expired."""
        return any(source.code == UNAUTHENTICATED for source in self._sources.values())

    async def close(self) -> None:
        for source in self._sources.values():
            source.cancel()
        await asyncio.gather(*(source.ended() for source in self._sources.values()))
        await self.client.close()


@dataclass(slots=True)
class _Entry:
    viewer: Viewer
    seen_at: float
    ends_at: float


class Sessions:
    """The login sessions. `clock`: seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    async def open(self, viewer: Viewer, cookie: str = "", lasts_s: float | None = None) -> str:
        """Start a session for the viewer. Returns its cookie.

        `cookie`: a secret to use as the cookie. `lasts_s`: how long the viewer's credentials are valid, if known.
        """
        cookie = cookie or secrets.token_urlsafe(32)
        await self.sweep()
        own = [key for key, entry in self._entries.items() if entry.viewer.user == viewer.user]
        for key in own[: max(0, len(own) - SESSIONS_OF_ONE + 1)]:
            await self._entries.pop(key).viewer.close()
        while len(self._entries) >= SESSIONS_MAX:
            _, oldest = self._entries.popitem(last=False)
            await oldest.viewer.close()
        now = self._clock()
        if (before := self._entries.pop(digest_of(cookie), None)) is not None:
            await before.viewer.close()
        ends_at = now + (AT_MOST_S if lasts_s is None else min(AT_MOST_S, lasts_s))
        self._entries[digest_of(cookie)] = _Entry(viewer, now, ends_at)
        return cookie

    def find(self, cookie: str) -> Viewer | None:
        entry = self._entries.get(digest_of(cookie)) if cookie else None
        if entry is None or self._is_over(entry):
            return None
        entry.seen_at = self._clock()
        self._entries.move_to_end(digest_of(cookie))
        return entry.viewer

    def keep(self, viewer: Viewer) -> bool:
        """Note that the viewer uses the session. Returns True if it has not ended."""
        for key, entry in self._entries.items():
            if entry.viewer is viewer:
                entry.seen_at = self._clock()
                self._entries.move_to_end(key)
                return not self._is_over(entry)
        return False

    def holds(self, viewer: Viewer) -> bool:
        """True if the viewer's session has not ended."""
        return any(entry.viewer is viewer and not self._is_over(entry) for entry in self._entries.values())

    async def close(self, cookie: str) -> None:
        if (entry := self._entries.pop(digest_of(cookie), None)) is not None:
            await entry.viewer.close()

    async def sweep(self) -> None:
        """Remove the sessions that have ended."""
        for key in [key for key, entry in self._entries.items() if self._is_over(entry)]:
            await self._entries.pop(key).viewer.close()

    async def close_all(self) -> None:
        for key in list(self._entries):
            await self._entries.pop(key).viewer.close()

    def _is_over(self, entry: _Entry) -> bool:
        now = self._clock()
        return entry.viewer.is_refused or now - entry.seen_at > IDLE_S or now >= entry.ends_at


def digest_of(cookie: str) -> bytes:
    """The digest that is kept instead of a secret."""
    return hashlib.sha256(cookie.encode()).digest()
