"""Concurrent asyncio tasks of a pod's first process: referenced while they run, and cancelled together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class BackgroundTasks:
    on_error: Callable[[str], None]
    """Called with the error of a task. No task is awaited, so its error would be lost."""
    _running: set[asyncio.Task[Any]] = field(default_factory=set)

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._on_done)

    def every(self, interval_s: float, act: Callable[[float], object]) -> None:
        """Call `act` again and again, with the seconds of a clock that nobody sets."""
        self.start(_repeat(interval_s, act))

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.on_error(f"{type(error).__name__}: {error}")


async def _repeat(interval_s: float, act: Callable[[float], object]) -> None:
    while True:
        await asyncio.sleep(interval_s)
        act(time.monotonic())
