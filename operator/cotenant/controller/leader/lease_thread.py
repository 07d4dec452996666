"""Thread of the Lease, with an event loop and a connection of its own, so that no amount of work delays its renewal.

A scheduling loop that hangs does not lead on unnoticed: the liveness probe fails and the kubelet ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable

from cotenant.controller.client.kube import UnreachableError
from cotenant.controller.client.rest import RestKube
from cotenant.controller.leader.election import LeaderElector

log = logging.getLogger(__name__)

RELEASE_S = 3.0


class LeaseThread:
    def __init__(self, kube: RestKube, elector: LeaderElector) -> None:
        self._kube = kube
        self._elector = elector
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    async def run(self, on_change: Callable[[bool], None]) -> None:
        """Raise the error that ended the thread. Cancelling leaves the thread running: `stop` ends it.

        `on_change` is called in the loop of the caller, with each change of `LeaderElector.is_leader`.
        """
        home = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException | None] = home.create_future()

        def notify(is_leader: bool) -> None:
            if not home.is_closed():
                home.call_soon_threadsafe(on_change, is_leader)

        def finish(error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(error)

        def body() -> None:
            error: BaseException | None = None
            try:
                asyncio.run(self._hold_lease(notify))
            except BaseException as raised:
                error = raised
            if not home.is_closed():
                home.call_soon_threadsafe(finish, error)

        self._thread = threading.Thread(target=body, name="lease", daemon=True)
        self._thread.start()
        raise RuntimeError("the thread of the Lease has ended") from await asyncio.shield(ended)

    async def stop(self) -> None:
        """Release the Lease and end the thread."""
        if self._thread is None or self._loop is None or self._stop is None:
            return
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # after an error, the loop closes a moment before the thread ends
                self._loop.call_soon_threadsafe(self._stop.set)
            await asyncio.to_thread(self._thread.join, RELEASE_S + 1.0)

    async def _hold_lease(self, notify: Callable[[bool], None]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._kube:
            renewing = asyncio.create_task(self._elector.run(notify))
            stopping = asyncio.create_task(self._stop.wait())
            await asyncio.wait({renewing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if renewing.done():
                renewing.result()
            renewing.cancel()
            await asyncio.wait({renewing})
            try:
                async with asyncio.timeout(RELEASE_S):
                    await self._elector.release()
            except (UnreachableError, TimeoutError) as error:
                log.warning("the lease could not be given back: %s", error)
