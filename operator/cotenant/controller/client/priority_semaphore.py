"""Bounds the calls in flight and lets those that matter go first: a commit never stands behind a thousand creates."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class Gate:
    """A semaphore whose waiters are served by rank, lower first, and in the order of their coming within a rank."""

    def __init__(self, width: int) -> None:
        self._free = width
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._turn = count()

    @asynccontextmanager
    async def passage(self, rank: int) -> AsyncIterator[None]:
        await self._enter(rank)
        try:
            yield
        finally:
            self._free += 1
            self._admit()

    async def _enter(self, rank: int) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._turn), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was let in and left at the same moment
                self._free += 1
                self._admit()
            raise

    def _admit(self) -> None:
        while self._free and self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
