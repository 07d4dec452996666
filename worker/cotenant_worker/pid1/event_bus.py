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
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.termination import log_line

_DECISIVE_OPS = ("ready", "exit", "stopped", "preempt", "calls", "server-ready", "server-lost")
_MAX_UNSENT_REPORTS = 1000
_NO_ACTOR_S = 90.0
"""Without an actor nobody hears this pod: longer than the driver needs to replace one."""


@dataclass(slots=True)
class EventBus:
    board: ProgressBoard
    is_head: bool
    mark_phase: Callable[[str], None]
    execute: Callable[[Message], Coroutine[Any, Any, None]]
    """A command for this pod's launcher."""
    on_actor_attached: Callable[[], None]
    """The actor has come: this pod is part of the cluster."""
    on_first_step: Callable[[], None]
    """A rank has done its first step: it has imported all that a step needs."""
    on_heartbeat: Callable[[Message], None]
    """What a rank says of itself once a second, for the conductor, wherever it is."""
    _actor: Channel | None = None
    """The actor: our way to the conductor."""
    _unsent_reports: deque[Message] = field(default_factory=lambda: deque(maxlen=_MAX_UNSENT_REPORTS))
    """What could not be said while there was no actor."""
    _decisive_events: list[tuple[float, Message]] = field(default_factory=list)
    """Everything that decides something, and when: an actor that dies may have taken some of it along."""
    _no_actor_timer: asyncio.TimerHandle | None = None
    _pending_commands: set[asyncio.Future[None]] = field(default_factory=set)

    async def open(self) -> asyncio.Server:
        return await asyncio.start_unix_server(self._serve, str(layout.socket_path()), limit=1 << 20)

    def emit(self, event: Message) -> None:
        """To the conductor, through the actor. Every new actor hears again what decides; beats may get lost."""
        if event["op"] in _DECISIVE_OPS:
            self._decisive_events.append((time.monotonic(), event))
        elif self._actor is None and event["op"] == "reports":
            self._unsent_reports.append(event)
        if self._actor is not None:
            self._actor.send(event)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        role = ""
        async for message in channel:
            if message["op"] == "hello":
                role = message["role"]
                self._on_hello(role, channel)
            elif role in ("rank", "node"):
                self._on_rank_message(message)
            elif role == "actor":
                await self.execute(message)
            elif role == "driver":
                self.apply_to_board(message)
        if role == "actor" and self._actor is channel:
            self._actor = None
            self._no_actor_timer = asyncio.get_running_loop().call_later(_NO_ACTOR_S, self._on_no_actor)
        channel.close()

    def _on_hello(self, role: str, channel: Channel) -> None:
        if role == "actor":
            self.mark_phase("actor attached")
            self._actor = channel
            self.on_actor_attached()
            if self._no_actor_timer is not None:
                self._no_actor_timer.cancel()
            now = time.monotonic()
            for at, event in self._decisive_events:
                channel.send(event | {"age": event["age"] + now - at} if "age" in event else event)
            while self._unsent_reports:
                channel.send(self._unsent_reports.popleft())
        elif role == "driver":
            self.mark_phase("driver connected")

    def _on_no_actor(self) -> None:
        self._pending_commands.add(asyncio.ensure_future(self.execute({"op": "head-silent", "for_s": _NO_ACTOR_S})))

    def _on_rank_message(self, message: Message) -> None:
        """A rank of this pod speaks: our own board first, and the head's."""
        if message["op"] == "beat":
            self.on_heartbeat({"op": "beats", "beats": [message["beat"]]})
            return
        if message["op"] == "mark":
            self.mark_phase(message["what"])
            if message.get("stepped"):
                self.on_first_step()
            return
        message["now"] = time.time()
        self.board.take(message, message["now"])
        if not self.is_head:
            self.emit({"op": "reports", "items": [message]})

    def apply_to_board(self, message: Message) -> None:
        """From the conductor, for rank 0's pod."""
        match message["op"]:
            case "reports":
                for item in message["items"]:
                    self.board.take(item, item["now"])
            case "warning":
                self.board.warn(message["key"], message["text"])
                if message["text"]:
                    log_line(message["text"])
            case "restarted":
                log_line(f"starting the ranks again (start {message['generation'] + 1}): {message['why']}")
                self.board.warn("restart", f"restarted {message['generation']}×, last: {message['why']}")
