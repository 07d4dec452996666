"""Turns of decisions that take long: one at a time, and after each a pause, so that threads which compute leave the
operator's loop most of the interpreter. However many objects tenants make, what is computed for them takes a third.
"""

from __future__ import annotations

import asyncio
from typing import Final

PAUSE: Final = 2.0
"""Times what a turn took."""


class ComputeTurns:
    """`async with turns:` waits for its turn, in the order of who came first."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._begun = self._next_at = 0.0

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(self._next_at - loop.time())
        except BaseException:
            self._lock.release()
            raise
        self._begun = loop.time()

    async def __aexit__(self, *_: object) -> None:
        ended = asyncio.get_running_loop().time()
        self._next_at = ended + PAUSE * (ended - self._begun)
        self._lock.release()
