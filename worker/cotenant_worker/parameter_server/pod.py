"""PID 1 of a parameter server's pod: starts the server, reports to rank 0's pod, serves until the ranks are done.

Stdlib only. The server, which needs numpy, is a child. Neither code of the tenant nor Ray runs here. The pod ends with
the verdict of the ranks, or with its own if the server's process or rank 0's pod is lost. If it is asked to stop, it
ends once the ranks have saved.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from cotenant import names
from cotenant.contract import Contract
from cotenant_worker.host import layout, termination_signals
from cotenant_worker.host.addresses import family_of
from cotenant_worker.host.background_tasks import BackgroundTasks
from cotenant_worker.host.container import oom_kills
from cotenant_worker.host.processes import ChildProcess, ChildWatcher, forward_output, kill_descendants
from cotenant_worker.messaging.hmac_handshake import authenticate_to_server_stream
from cotenant_worker.messaging.json_lines import Channel
from cotenant_worker.parameter_server.heartbeats import HEARTBEAT_TIMEOUT_S, receive_until_silent, send_heartbeats
from cotenant_worker.progress import http_endpoint
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.termination import log_line, termination_of, write_termination
from cotenant_worker.ranks.environment import server_environment
from cotenant_worker.supervision.commands import Finish
from cotenant_worker.supervision.messages import (
    MESSAGES,
    FinishAttempt,
    Message,
    Preempt,
    RankStopped,
    ServerGone,
    ServerHello,
)
from cotenant_worker.supervision.stopped_ranks import StoppedRanks

_RETRY_INTERVAL_S = 0.1
_CONNECT_TIMEOUT_S = 5.0
_LOOK_S = 2.0
"""Pause between two looks at the server's process."""
STOPPED_TIMEOUT_S = 20.0
"""A stopped (SIGSTOP) server is lost after this time. No code of the tenant runs there, so nothing stops it on purpose.
"""


@dataclass(slots=True)
class ServerPod:
    contract: Contract
    env: Mapping[str, str]
    ip: str
    nursery: ChildWatcher = field(default_factory=ChildWatcher)
    verdict: asyncio.Future[Finish] = field(init=False)
    _link: Channel[Message] | None = None
    _stopping: bool = False
    tasks: BackgroundTasks = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = BackgroundTasks(self._broke)
        self.verdict = asyncio.get_running_loop().create_future()

    @property
    def name(self) -> str:
        return f"parameter server {self.contract.server}"

    @property
    def head(self) -> str:
        return self.contract.pods[0].host

    async def run(self) -> int:
        """The pod's exit code."""
        self.nursery.start()
        termination_signals.deliver(asyncio.get_running_loop(), self._terminated)
        child = self._start()
        labels = {"job": self.contract.job, "namespace": self.contract.namespace}
        board = ProgressBoard()
        pages = await http_endpoint.serve(board, self.ip, labels)
        self.tasks.start(self._watch(child))
        running = (self.contract.server or 0, 0, child.pid)
        server = StoppedRanks(lambda: [running], partial(self._stopped, child), STOPPED_TIMEOUT_S)
        self.tasks.every(_LOOK_S, server.check)
        self.tasks.start(self._follow_head())
        finish = await self.verdict
        pages.close()
        self.tasks.cancel()
        await kill_descendants()
        write_termination(termination_of(self.contract, board, finish), self.env)
        log_line(f"{finish.reason} ({finish.code}): {finish.message}")
        return finish.code

    def _broke(self, error: str) -> None:
        self._end(names.EXIT_PEER_LOST, "PeerLost", f"launcher of {self.name}: {error}")

    def _end(self, code: int, reason: str, message: str, *, tail: tuple[str, ...] = ()) -> None:
        self._set_verdict(Finish(code, reason, message, tail=tail))

    def _set_verdict(self, finish: Finish) -> None:
        """The first verdict counts."""
        if not self.verdict.done():
            self.verdict.set_result(finish)

    # -- the server -------------------------------------------------------------------------------------------

    def _start(self) -> ChildProcess:
        """Start the server on a socket that already listens, so that ranks can connect before its imports end."""
        read_end, write_end = os.pipe()
        with socket.create_server((self.ip, layout.SERVER_PORT), family=family_of(self.ip), backlog=256) as listener:
            number = listener.fileno()
            argv = [sys.executable, "-P", "-m", "cotenant_worker.parameter_server.shards", str(number)]
            env = server_environment(self.env, self.contract)
            child = self.nursery.spawn("server", argv, env, cwd="/", output=write_end, keep=[number])
        os.close(write_end)
        child.output = asyncio.create_task(forward_output(read_end, child, ""))
        return child

    async def _watch(self, child: ChildProcess) -> None:
        before = oom_kills()
        status = await child.exit
        if child.output is not None:
            await asyncio.wait([child.output], timeout=0.2)
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
        if status == -signal.SIGKILL and oom_kills() > before:
            where = "Ask for more in runtime.parameterServer.resources.memory, or for more servers"
            message = f"{self.name} was killed by the kernel: out of memory. {where}"
            code, reason = 137, "OutOfMemory"
        else:
            code, reason, message = names.EXIT_PEER_LOST, "PeerLost", f"the process of {self.name} {how}"
        self._gone(code, reason, message, child)

    def _stopped(self, child: ChildProcess, stopped: RankStopped) -> None:
        """End the pod if the server is stopped and has not ended, because ranks wait for it."""
        message = f"the process of {self.name} was stopped (SIGSTOP) {stopped.stopped_s:.0f} s ago and stays so"
        self._gone(names.EXIT_PEER_LOST, "PeerLost", message, child)

    def _gone(self, code: int, reason: str, message: str, child: ChildProcess) -> None:
        if self._link is not None:
            self._link.send(ServerGone(message))
        self._end(code, reason, message, tail=tuple(child.tail))

    # -- rank 0's pod -----------------------------------------------------------------------------------------

    async def _follow_head(self) -> None:
        link = await self._join()
        if link is None:
            waited = self.contract.rendezvous_timeout_s
            message = f"the pod of rank 0, {self.head}, did not answer within {waited} s"
            self._end(names.EXIT_RENDEZVOUS_TIMEOUT, "RendezvousTimeout", message)
            return
        self._link = link
        link.send(ServerHello(self.contract.server or 0))
        why = "is gone"
        with send_heartbeats(link):
            try:
                async for heard_message in receive_until_silent(link):
                    if isinstance(heard_message, FinishAttempt):
                        self._set_verdict(heard_message.verdict)
                        return
            except TimeoutError:
                why = f"has not been heard of for {HEARTBEAT_TIMEOUT_S:.0f} s"
        self._end(names.EXIT_PEER_LOST, "PeerLost", f"the pod of rank 0, {self.head}, {why}")

    async def _join(self) -> Channel[Message] | None:
        """Connect to rank 0's pod, whose name resolves once it has an address; None after the rendezvous timeout."""
        env = server_environment(self.env, self.contract)
        end = time.monotonic() + self.contract.rendezvous_timeout_s
        while time.monotonic() < end:
            with contextlib.suppress(OSError, EOFError):
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    reader, writer = await asyncio.open_connection(self.head, layout.LINK_PORT)
                await authenticate_to_server_stream(reader, writer, env[layout.ENV_SECRET])
                return Channel(reader, writer, MESSAGES)
            await asyncio.sleep(_RETRY_INTERVAL_S)
        return None

    # -- asked to stop ----------------------------------------------------------------------------------------

    def _terminated(self) -> None:
        """SIGTERM from the kubelet. All pods of the attempt are asked to save, and they need the parameters
        meanwhile.
        """
        if self._stopping:
            return
        self._stopping = True
        log_line(f"asked to stop: {self.contract.grace_s} s for the ranks to save and leave")
        if self._link is not None:
            self._link.send(Preempt())
        self.tasks.start(self._see_out())

    async def _see_out(self) -> None:
        """End before the kubelet's grace period does, or at once if no rank has connected."""
        patience = max(1.0, self.contract.grace_s - 2.0) if self._link is not None else 0.0
        await asyncio.wait([self.verdict], timeout=patience)
        self._end(names.EXIT_PREEMPTED, "Preempted", "asked to stop")
