"""The Ray actor of one pod: a relay between the driver and the pod's launcher. Imported by Ray's worker process.

It has no state of its own: commands go to the launcher's unix socket, and events come back in batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

from cotenant_worker.host import layout
from cotenant_worker.messaging.json_lines import Channel
from cotenant_worker.supervision.hangs import RankHeartbeat
from cotenant_worker.supervision.messages import (
    MESSAGES,
    ForwardedReport,
    HeadSilent,
    Hello,
    Message,
    PodCommand,
    PodLost,
)

_BATCH_S = 0.05
_POLL_S = 5.0
_DRIVER_SILENT_S = 25.0
"""A driver polls for events without a pause. One that is silent for this long is frozen or cut off."""


class PodActor:
    """One per pod, pinned there by the resource `w<i>`. The driver makes it a Ray actor."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        self._channel: Channel[Message] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._polled_at = 0.0

    async def attach(self) -> str:
        """Connect to the launcher and return its identity. A replacement pod has another one."""
        self._channel = await Channel.connect(layout.socket_path(), MESSAGES, 10.0)
        self._channel.send(Hello("actor"))
        self._polled_at = time.monotonic()
        self._tasks = [asyncio.create_task(self._read(self._channel)), asyncio.create_task(self._watch_driver())]
        socket = os.stat(layout.socket_path())
        return f"{socket.st_ino}-{socket.st_ctime_ns}"

    async def _watch_driver(self) -> None:
        """Report a silent driver, because connections to a frozen head stay open. The launcher then ends this pod."""
        left = _DRIVER_SILENT_S
        while left > 0:
            await asyncio.sleep(left)
            left = self._polled_at + _DRIVER_SILENT_S - time.monotonic()
        assert self._channel is not None
        self._channel.send(HeadSilent(_DRIVER_SILENT_S))

    async def _read(self, channel: Channel[Message]) -> None:
        async for message in channel:
            self._events.put_nowait(message)
        self._events.put_nowait(PodLost("its launcher ended"))

    async def events(self) -> list[Message]:
        """The next events; an empty list after some seconds of silence, as a sign of life."""
        batch: list[Message] = []
        self._polled_at = time.monotonic()
        with contextlib.suppress(TimeoutError):
            batch.append(await asyncio.wait_for(self._events.get(), _POLL_S))
        if batch and isinstance(batch[0], RankHeartbeat | ForwardedReport):
            await asyncio.sleep(_BATCH_S)
        while not self._events.empty():
            batch.append(self._events.get_nowait())
        return batch

    async def command(self, message: PodCommand) -> None:
        assert self._channel is not None
        self._channel.send(message)
        await self._channel.drain()
