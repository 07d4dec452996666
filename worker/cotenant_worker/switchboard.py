"""Who talks to the launcher over its unix socket: ranks, Ray's node process, the actor, the driver.

What ranks say goes on this pod's board and, if this is not rank 0's pod, through the actor to the conductor, who
passes it on to rank 0's pod. Commands come the other way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cotenant_worker import layout
from cotenant_worker.board import Board
from cotenant_worker.channel import Channel, Message
from cotenant_worker.verdicts import say


@dataclass(slots=True)
class Switchboard:
    board: Board
    head: bool
    mark: Callable[[str], None]
    obey: Callable[[Message], Awaitable[None]]
    """A command for this pod's launcher."""
    attached: Callable[[], None]
    """The actor has come: this pod is part of the cluster."""
    _relay: Channel | None = None
    """The actor: our way to the conductor."""
    _outbox: list[Message] = field(default_factory=list)

    async def open(self) -> asyncio.Server:
        return await asyncio.start_unix_server(self._serve, str(layout.socket_path()), limit=1 << 20)

    def emit(self, event: Message) -> None:
        """To the conductor, through the actor; kept until there is one."""
        if self._relay is not None:
            self._relay.send(event)
        else:
            self._outbox.append(event)

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
        channel.close()

    def _hello(self, role: str, channel: Channel) -> None:
        if role == "actor":
            self.mark("actor attached")
            self._relay = channel
            self.attached()
            for event in self._outbox:
                channel.send(event)
            self._outbox.clear()
        elif role == "driver":
            self.mark("driver connected")

    def _heard(self, message: Message) -> None:
        """A rank of this pod speaks: our own board first, and the head's."""
        if message["op"] == "beat":
            self.emit({"op": "beats", "beats": [message["beat"]]})
            return
        if message["op"] == "mark":
            self.mark(message["what"])
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
