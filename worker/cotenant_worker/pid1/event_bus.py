"""Who talks to the launcher over its unix socket: ranks, Ray's node process, the actor, the driver.

What ranks say goes on this pod's board and, if this is not rank 0's pod, through the actor to the conductor, who
passes it on to rank 0's pod. Commands come the other way.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from cotenant_worker.host import layout
from cotenant_worker.messaging.json_lines import Channel, Message
from cotenant_worker.progress.progress_board import Board
from cotenant_worker.progress.termination import say

_DECIDES = ("ready", "exit", "stopped", "preempt", "calls", "server-ready", "server-lost")
_REPORTS = 1000
_ALONE_S = 90.0
"""Without an actor nobody hears this pod: longer than the driver needs to replace one."""


@dataclass(slots=True)
class Switchboard:
    board: Board
    head: bool
    mark: Callable[[str], None]
    obey: Callable[[Message], Coroutine[Any, Any, None]]
    """A command for this pod's launcher."""
    attached: Callable[[], None]
    """The actor has come: this pod is part of the cluster."""
    stepped: Callable[[], None]
    """A rank has done its first step: it has imported all that a step needs."""
    beat: Callable[[Message], None]
    """What a rank says of itself once a second, for the conductor, wherever it is."""
    _relay: Channel | None = None
    """The actor: our way to the conductor."""
    _reports: deque[Message] = field(default_factory=lambda: deque(maxlen=_REPORTS))
    """What could not be said while there was no actor."""
    _said: list[tuple[float, Message]] = field(default_factory=list)
    """Everything that decides something, and when: an actor that dies may have taken some of it along."""
    _silence: asyncio.TimerHandle | None = None
    _orders: set[asyncio.Future[None]] = field(default_factory=set)

    async def open(self) -> asyncio.Server:
        return await asyncio.start_unix_server(self._serve, str(layout.socket_path()), limit=1 << 20)

    def emit(self, event: Message) -> None:
        """To the conductor, through the actor. Every new actor hears again what decides; beats may get lost."""
        if event["op"] in _DECIDES:
            self._said.append((time.monotonic(), event))
        elif self._relay is None and event["op"] == "reports":
            self._reports.append(event)
        if self._relay is not None:
            self._relay.send(event)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        role = ""
        async for message in channel:
            if message["op"] == "hello":
                role = message["role"]
                self._hello(role, channel)
            elif role in ("rank", "node"):
                self._heard(message)
            elif role == "actor":
                await self.obey(message)
            elif role == "driver":
                self.on_board(message)
        if role == "actor" and self._relay is channel:
            self._relay = None
            self._silence = asyncio.get_running_loop().call_later(_ALONE_S, self._left_alone)
        channel.close()

    def _hello(self, role: str, channel: Channel) -> None:
        if role == "actor":
            self.mark("actor attached")
            self._relay = channel
            self.attached()
            if self._silence is not None:
                self._silence.cancel()
            now = time.monotonic()
            for at, event in self._said:
                channel.send(event | {"age": event["age"] + now - at} if "age" in event else event)
            while self._reports:
                channel.send(self._reports.popleft())
        elif role == "driver":
            self.mark("driver connected")

    def _left_alone(self) -> None:
        self._orders.add(asyncio.ensure_future(self.obey({"op": "head-silent", "for_s": _ALONE_S})))

    def _heard(self, message: Message) -> None:
        """A rank of this pod speaks: our own board first, and the head's."""
        if message["op"] == "beat":
            self.beat({"op": "beats", "beats": [message["beat"]]})
            return
        if message["op"] == "mark":
            self.mark(message["what"])
            if message.get("stepped"):
                self.stepped()
            return
        message["now"] = time.time()
        self.board.take(message, message["now"])
        if not self.head:
            self.emit({"op": "reports", "items": [message]})

    def on_board(self, message: Message) -> None:
        """From the conductor, for rank 0's pod."""
        match message["op"]:
            case "reports":
                for item in message["items"]:
                    self.board.take(item, item["now"])
            case "warning":
                self.board.warn(message["key"], message["text"])
                if message["text"]:
                    say(message["text"])
            case "restarted":
                say(f"starting the ranks again (start {message['generation'] + 1}): {message['why']}")
                self.board.warn("restart", f"restarted {message['generation']}×, last: {message['why']}")
