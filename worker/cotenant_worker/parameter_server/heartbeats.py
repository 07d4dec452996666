"""Links between rank 0's pod and the pods of the parameter servers: arrival, heartbeats, loss, verdict. Stdlib only.

Servers have no ranks and are not in the job's Ray cluster. The launcher of each connects to the launcher of rank 0's
pod, proves that it knows the attempt's secret, and names its server. Both sides send a heartbeat every
`HEARTBEAT_INTERVAL_S`. A silent side counts as lost after `HEARTBEAT_TIMEOUT_S`, also if it is frozen. The conductor
gets the events.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field

from cotenant import names
from cotenant.contract import Contract
from cotenant_worker.host import layout
from cotenant_worker.messaging.hmac_handshake import authenticate_client_stream, secret_of
from cotenant_worker.messaging.json_lines import Channel
from cotenant_worker.supervision.commands import Finish
from cotenant_worker.supervision.messages import (
    MESSAGES,
    Alive,
    FinishAttempt,
    Message,
    PodEvent,
    Preempt,
    ServerGone,
    ServerHello,
    ServerLost,
    ServerReady,
)

HEARTBEAT_INTERVAL_S = 5.0
HEARTBEAT_TIMEOUT_S = 25.0
_FLUSH_S = 2.0


@dataclass(slots=True)
class ServerLinks:
    """Links to the parameter servers, in rank 0's pod."""

    contract: Contract
    env: Mapping[str, str]
    emit: Callable[[PodEvent], None]
    """Events for the conductor."""
    _channels: dict[int, Channel[Message]] = field(default_factory=dict)
    _told: bool = False

    async def open(self, ip: str) -> None:
        await asyncio.start_server(self._serve, ip, layout.LINK_PORT)

    async def finish(self, verdict: Finish) -> None:
        """Tell every server how the attempt ended. They leave with the same exit code."""
        self._told = True
        for channel in self._channels.values():
            channel.send(FinishAttempt(verdict))
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_FLUSH_S):
                await asyncio.gather(*(channel.drain() for channel in self._channels.values()))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        secret = secret_of(self.env.get(names.ENV_RAY_TOKEN, ""), self.contract.uid, self.contract.attempt)
        with contextlib.suppress(OSError, EOFError):
            await authenticate_client_stream(reader, writer, secret)
            await self._follow(Channel(reader, writer, MESSAGES))
        writer.close()

    async def _follow(self, channel: Channel[Message]) -> None:
        messages = receive_until_silent(channel)
        hello = await anext(messages, None)
        if not isinstance(hello, ServerHello) or hello.server in self._channels:
            return
        server = hello.server
        self._channels[server] = channel
        self.emit(ServerReady(server))
        why = "its connection ended"
        with send_heartbeats(channel):
            try:
                async for message in messages:
                    if isinstance(message, Preempt):
                        self.emit(Preempt())
                    elif isinstance(message, ServerGone):
                        why = message.why
            except TimeoutError:
                why = f"it has not been heard of for {HEARTBEAT_TIMEOUT_S:.0f} s"
        del self._channels[server]
        if not self._told:
            self.emit(ServerLost(server, why))


async def receive_until_silent(channel: Channel[Message]) -> AsyncIterator[Message]:
    """Messages until the other side closes. Raises TimeoutError after `HEARTBEAT_TIMEOUT_S` without one."""
    messages = aiter(channel)
    while True:
        async with asyncio.timeout(HEARTBEAT_TIMEOUT_S):
            message = await anext(messages, None)
        if message is None:
            return
        yield message


@contextlib.contextmanager
def send_heartbeats(channel: Channel[Message]) -> Iterator[None]:
    """Send a heartbeat every `HEARTBEAT_INTERVAL_S` while the body runs."""

    async def beat() -> None:
        while True:
            channel.send(Alive())
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
