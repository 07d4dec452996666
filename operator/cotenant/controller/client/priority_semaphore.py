"""Semaphore with priorities: bounds the calls in flight, and a commit never queues behind a thousand creates."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class PrioritySemaphore:
    """Semaphore whose waiters are served by priority, lower numbers first, and within one priority in FIFO order."""

    def __init__(self, value: int) -> None:
        self._free = value
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @asynccontextmanager
    async def acquire(self, priority: int) -> AsyncIterator[None]:
        await self._wait(priority)
        try:
            yield
        finally:
            self._free += 1
            self._wake()

    async def _wait(self, priority: int) -> None:
        if self._free and not self._waiters:
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (priority, next(self._arrivals), granted))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():  # granted and cancelled at the same moment
                self._free += 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._free and self._waiters:
            _, _, granted = heapq.heappop(self._waiters)
            if not granted.done():
                self._free -= 1
                granted.set_result(None)
