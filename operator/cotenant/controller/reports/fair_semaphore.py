"""Semaphore with fair sharing: it bounds concurrent calls, and a flow with many waiting calls does not block others.

Each call belongs to a flow. A free place goes to the waiting flow with the fewest calls in progress (max-min fairness,
like "priority and fairness" of the API server); within a flow, to the oldest call. A flow has at most `of_one` calls in
progress.

If calls last at most t seconds and f other flows wait, a flow without calls in progress waits at most t * ceil((f + 1)
/ at_once) seconds, because each other flow goes before it at most once. If f * of_one < at_once, it does not wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSemaphore:
    def __init__(self, at_once: int, *, of_one: int) -> None:
        self._free = at_once
        self._of_one = of_one
        self._under_way: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def acquire(self, flow: str) -> AsyncIterator[None]:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(flow, deque()).append(granted)
        self._grant()
        try:
            await granted
            yield
        finally:
            if granted.done() and not granted.cancelled():  # also where it was granted and cancelled at one moment
                self._release(flow)
            self._grant()

    def _release(self, flow: str) -> None:
        self._free += 1
        self._under_way[flow] -= 1
        if not self._under_way[flow]:
            del self._under_way[flow]

    def _grant(self) -> None:
        """Hand out free places. A flow that was just served goes behind those with as many calls in progress."""
        while self._free and (flow := self._neediest()) is not None:
            line = self._waiting.pop(flow)
            granted = line.popleft()
            if line:
                self._waiting[flow] = line
            if not granted.done():
                self._free -= 1
                self._under_way[flow] += 1
                granted.set_result(None)

    def _neediest(self) -> str | None:
        entitled = (flow for flow in self._waiting if self._under_way[flow] < self._of_one)
        return min(entitled, key=self._under_way.__getitem__, default=None)
