"""One event loop in a thread, so that programs without one can call asynchronous code."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

T = TypeVar("T")
END_S: Final = 5.0
"""Time for the work at the end."""


class BackgroundLoop:
    """Starts at its first use. Ends with `close`, with its last user, or with the program. It does not touch a
    notebook's own loop.
    """

    def __init__(self, at_end: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """`at_end` is awaited in the loop before it ends. It must not refer to this object, which would keep it
        alive.
        """
        self._lock = threading.Lock()
        self._at_end = at_end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: Callable[[], object] = lambda: None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result or exception. Ctrl-C ends the wait and cancels the work."""
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items as they come. If the caller stops early, the iteration ends too."""
        try:
            while True:
                try:
                    yield self.call(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self.call(_closed(items))

    def close(self) -> None:
        with self._lock:
            self._loop = None
            end = self._end
        end()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=loop.run_forever, name="cotenant", daemon=True)
                self._end = weakref.finalize(self, _ended, loop, thread, self._at_end)
                thread.start()
            return self._loop


def _ended(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, at_end: Callable[[], Coroutine[Any, Any, None]] | None
) -> None:
    """End the loop. If the object is collected in the loop's own thread, nothing waits for the end."""

    async def end() -> None:
        try:
            if at_end is not None:
                await at_end()
        finally:
            loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)
    if thread is not threading.current_thread():
        thread.join(END_S)


async def _next(items: AsyncIterator[T]) -> T:
    return await items.__anext__()


async def _closed(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()
