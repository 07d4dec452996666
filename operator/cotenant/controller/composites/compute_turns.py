"""Turns for decisions that take long. One decision computes at a time, and a pause follows each.

The pause leaves the operator's event loop two thirds of the interpreter's time, however many objects tenants make.
"""

from __future__ import annotations

import asyncio
from typing import Final

PAUSE: Final = 2.0
"""Length of the pause, in times of the turn before it."""


class ComputeTurns:
    """`async with turns:` waits for a turn, first come, first served."""

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
