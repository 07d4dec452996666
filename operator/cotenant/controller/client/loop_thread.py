"""Work in a thread with an event loop of its own, which nothing in the operator's loop delays."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any


def start(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Future[BaseException | None]:
    """Start the work. The result is the error that ended it, or None. Cancelling the future leaves the work running."""
    home = asyncio.get_running_loop()
    ended: asyncio.Future[BaseException | None] = home.create_future()

    def body() -> None:
        error: BaseException | None = None
        try:
            asyncio.run(work())
        except BaseException as raised:
            error = raised
        call_in(home, lambda: None if ended.done() else ended.set_result(error))

    threading.Thread(target=body, name=name, daemon=True).start()
    return ended


def call_in(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Call it in this loop, from any thread, unless the loop is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
