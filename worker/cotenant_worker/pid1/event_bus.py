"""The launcher's unix socket: ranks, Ray's node process, the pod's actor and the driver connect to it.

Reports of ranks go to this pod's `ProgressBoard`. In other pods than rank 0's they also go through the actor to the
conductor, which passes them on to rank 0's pod. Commands take the opposite way.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from cotenant_worker.host import layout
from cotenant_worker.messaging.json_lines import LINE_LIMIT_BYTES, Channel
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.termination import log_line
from cotenant_worker.supervision.hangs import RankHeartbeat
from cotenant_worker.supervision.messages import (
    MESSAGES,
    ForwardedReport,
    HeadMessage,
    HeadSilent,
    Hello,
    Message,
    PhaseReached,
    PodCommand,
    PodEvent,
    PodReady,
    PodStaging,
    Preempt,
    RankExited,
    RankStopped,
    Restarted,
    SafePoints,
    ServerLost,
    ServerReady,
)
from cotenant_worker.supervision.rank_reports import ProgressWarning, RankReport

_DECISIVE = (PodReady, RankExited, RankStopped, Preempt, SafePoints, ServerReady, ServerLost)
_REPORTS = get_args(RankReport)
_COMMANDS = get_args(PodCommand)
_MAX_UNSENT_REPORTS = 1000
_NO_ACTOR_S = 90.0
"""A pod without an actor for this time is cut off. The driver needs less to replace one."""


@dataclass(slots=True)
class EventBus:
    board: ProgressBoard
    is_head: bool
    mark_phase: Callable[[str], None]
    execute: Callable[[PodCommand], Coroutine[Any, Any, None]]
    """Executes a command for this pod's launcher."""
    on_actor_attached: Callable[[], None]
    """Called when the actor has connected: this pod is part of the cluster."""
    on_first_step: Callable[[], None]
    """Called when a rank has done its first step: it has imported everything that a step needs."""
    on_heartbeat: Callable[[PodEvent], None]
    """Passes a rank's heartbeat to the conductor."""
    _actor: Channel[Message] | None = None
    """Channel to the conductor."""
    _unsent_reports: deque[PodEvent] = field(default_factory=lambda: deque(maxlen=_MAX_UNSENT_REPORTS))
    """Reports that came while there was no actor."""
    _decisive_events: list[tuple[float, PodEvent]] = field(default_factory=list)
    """(monotonic time, event) of all events that decide something. They are sent again to a new actor, because the last
    one may have lost some.
    """
    _no_actor_timer: asyncio.TimerHandle | None = None
    _pending_commands: set[asyncio.Future[None]] = field(default_factory=set)

    async def open(self) -> asyncio.Server:
        return await asyncio.start_unix_server(self._serve, str(layout.socket_path()), limit=LINE_LIMIT_BYTES)

    def emit(self, event: PodEvent) -> None:
        """Send to the conductor, through the actor.

        A new actor gets decisive events again, and that all data is there: it may come before any actor.
        Heartbeats may be lost.
        """
        if isinstance(event, _DECISIVE) or (isinstance(event, PodStaging) and event.done):
            self._decisive_events.append((time.monotonic(), event))
        elif self._actor is None and isinstance(event, ForwardedReport):
            self._unsent_reports.append(event)
        if self._actor is not None:
            self._actor.send(event)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer, MESSAGES)
        role = ""
        async for message in channel:
            if isinstance(message, Hello):
                role = message.role
                self._on_hello(role, channel)
            elif role == "rank":
                self._on_rank_message(message)
            elif role == "actor" and isinstance(message, _COMMANDS):
                await self.execute(message)
            elif role == "driver" and isinstance(message, HeadMessage):
                self.apply_to_board(message)
        if role == "actor" and self._actor is channel:
            self._actor = None
            self._no_actor_timer = asyncio.get_running_loop().call_later(_NO_ACTOR_S, self._on_no_actor)
        channel.close()

    def _on_hello(self, role: str, channel: Channel[Message]) -> None:
        if role == "actor":
            self.mark_phase("actor attached")
            self._actor = channel
            self.on_actor_attached()
            if self._no_actor_timer is not None:
                self._no_actor_timer.cancel()
            now = time.monotonic()
            for at, event in self._decisive_events:
                if isinstance(event, RankExited):
                    event = replace(event, age_s=event.age_s + now - at)  # noqa: PLW2901 - as old as it is by now
                channel.send(event)
            while self._unsent_reports:
                channel.send(self._unsent_reports.popleft())
        elif role == "driver":
            self.mark_phase("driver connected")

    def _on_no_actor(self) -> None:
        self._pending_commands.add(asyncio.ensure_future(self.execute(HeadSilent(_NO_ACTOR_S))))

    def _on_rank_message(self, message: Message) -> None:
        """Heartbeats go to the conductor, reports to this pod's board and to rank 0's."""
        if isinstance(message, RankHeartbeat):
            self.on_heartbeat(message)
        elif isinstance(message, PhaseReached):
            self.mark_phase(message.phase)
            if message.first_step:
                self.on_first_step()
        elif isinstance(message, _REPORTS):
            self.report(message)

    def report(self, message: RankReport) -> None:
        """Store a report on this pod's board and on rank 0's."""
        now = time.time()
        self.board.record(message, now)
        if not self.is_head:
            self.emit(ForwardedReport(message, now))

    def apply_to_board(self, message: HeadMessage) -> None:
        """Show on the board what the conductor sends to rank 0's pod."""
        match message:
            case ForwardedReport(report, received_unix_s):
                self.board.record(report, received_unix_s)
            case ProgressWarning(key, text):
                self.board.warn(key, text)
                if text:
                    log_line(text)
            case PodStaging():
                self.board.record_staging(message, time.time())
            case Restarted(generation, why):
                log_line(f"starting the ranks again (start {generation + 1}): {why}")
                self.board.warn("restart", f"restarted {generation}×, last: {why}")
