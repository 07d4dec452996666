"""Sessions: who looks, by a cookie. In memory alone, bounded in number and time; a cookie is kept as its digest."""

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
"""Of one user: whoever logs in again and again puts out themselves, and no one else."""
IDLE_S: Final = 3600.0
AT_MOST_S: Final = 12 * 3600.0
SOURCES_MAX: Final = 32
STREAMS_MAX: Final = 8
"""Pages of one session that are kept up to date at one time."""


@dataclass(eq=False, repr=False)
class Viewer:
    """One person who looks, with what is read for them. The credentials are in `client` and nowhere else."""

    client: CallerClient
    user: str
    namespace: str = ""
    """Shown where none is chosen; empty: all."""
    streams: int = 0
    traces: ProgressTraces = field(default_factory=ProgressTraces)
    palette: Palette = field(default_factory=Palette)
    refused_form: tuple[str, str] = ("", "")
    """Path of the page whose form the API server refused last, and why; empty if it took the last one."""
    _sources: OrderedDict[Hashable, Source[Any]] = field(default_factory=OrderedDict)

    def follow(self, scope: Scope, read: Callable[[Document], T]) -> Followed[T]:
        """Rows of a scope; the same for all pages that show it."""
        source: Followed[T] = self._source(scope, lambda: Followed(self.client, scope, read))
        return source

    def ask(self, key: Hashable, ask: Callable[[], Awaitable[T]], none_yet: T, every_s: float) -> Asked[T]:
        """An answer under a key; `none_yet` until it comes."""
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
        """The API server knows the caller no longer: their token has ended."""
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
    """`clock`: seconds that do not go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    async def open(self, viewer: Viewer, cookie: str = "", lasts_s: float | None = None) -> str:
        """The cookie by which the viewer is found from now on. `cookie`: one that is secret already. `lasts_s`: how
        long the viewer's credentials are good, where that is known."""
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
        """True if the viewer's session is not over, which they use just now."""
        for key, entry in self._entries.items():
            if entry.viewer is viewer:
                entry.seen_at = self._clock()
                self._entries.move_to_end(key)
                return not self._is_over(entry)
        return False

    def holds(self, viewer: Viewer) -> bool:
        """True if the viewer's session is not over."""
        return any(entry.viewer is viewer and not self._is_over(entry) for entry in self._entries.values())

    async def close(self, cookie: str) -> None:
        if (entry := self._entries.pop(digest_of(cookie), None)) is not None:
            await entry.viewer.close()

    async def sweep(self) -> None:
        """End those that are over."""
        for key in [key for key, entry in self._entries.items() if self._is_over(entry)]:
            await self._entries.pop(key).viewer.close()

    async def close_all(self) -> None:
        for key in list(self._entries):
            await self._entries.pop(key).viewer.close()

    def _is_over(self, entry: _Entry) -> bool:
        now = self._clock()
        return entry.viewer.is_refused or now - entry.seen_at > IDLE_S or now >= entry.ends_at


def digest_of(cookie: str) -> bytes:
    """What is kept of a secret by which something is found."""
    return hashlib.sha256(cookie.encode()).digest()
