"""Thread of the Lease, with an event loop and a connection of its own, so that no amount of work delays its renewal.

A scheduling loop that hangs does not lead on unnoticed: the liveness probe fails and the kubelet ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from cotenant.controller.client import loop_thread
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
        self._ended: asyncio.Future[BaseException | None] | None = None

    async def run(self, on_change: Callable[[bool], None]) -> None:
        """Raise the error that ended the thread. Cancelling leaves the thread running: `stop` ends it.

        `on_change` is called in the loop of the caller, with each change of `LeaderElector.is_leader`.
        """
        home = asyncio.get_running_loop()

        def notify(is_leader: bool) -> None:
            loop_thread.call_in(home, partial(on_change, is_leader))

        self._ended = loop_thread.start("lease", partial(self._hold_lease, notify))
        raise RuntimeError("the thread of the Lease has ended") from await asyncio.shield(self._ended)

    async def stop(self) -> None:
        """Release the Lease and end the thread."""
        if self._ended is None or self._loop is None or self._stop is None or self._ended.done():
            return
        with contextlib.suppress(RuntimeError):  # after an error, the loop closes a moment before the thread ends
            self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.wait({self._ended}, timeout=RELEASE_S + 1.0)

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
