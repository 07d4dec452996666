"""The conductor of an attempt: passes events of the pods to the supervisor, and executes its commands.

There is one for each attempt, in rank 0's pod: over Ray actors in the driver, or over the launcher itself if the group
is one rank. Only `Pods` differs.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cotenant.contract import Contract
from cotenant_worker.checkpoints import local_store
from cotenant_worker.host.addresses import family_of
from cotenant_worker.messaging.shared_counters import common_stop_call
from cotenant_worker.supervision.commands import Command, Finish, KillRanks, Resize, Start
from cotenant_worker.supervision.failure_cause import RankExit
from cotenant_worker.supervision.hangs import RankHeartbeat
from cotenant_worker.supervision.messages import (
    FinishAttempt,
    ForwardedReport,
    HeadMessage,
    PodCommand,
    PodEvent,
    PodLost,
    PodReady,
    PodStaging,
    Preempt,
    RankExited,
    RankStopped,
    Restarted,
    SafePoints,
    ServerLost,
    ServerReady,
    StartRanks,
    StopAtCall,
)
from cotenant_worker.supervision.rank_reports import ProgressWarning
from cotenant_worker.supervision.supervisor import GroupState, Supervisor
from cotenant_worker.supervision.watchdog import Watchdog
from cotenant_worker.supervision.worker_group import WorkerGroup

_TICK_S = 0.1
_PORTS = range(24000, 29400)
"""Below the ephemeral range, so that no outgoing connection takes the port before the rank binds it, and below 29400
and 29500, where launchers of a program's own meet.
"""


class Pods(Protocol):
    """The pods of the attempt, as the conductor sees them."""

    async def send(self, pod: int, message: PodCommand) -> None: ...

    def send_to_head(self, message: HeadMessage) -> None:
        """Send progress and warnings to the launcher of rank 0's pod."""


@dataclass(slots=True)
class Conductor:
    contract: Contract
    pods: Pods
    clock: Callable[[], float] = time.monotonic
    supervisor: Supervisor = field(init=False)
    watchdog: Watchdog = field(init=False)
    verdict: asyncio.Future[Finish] = field(init=False)
    _calls: dict[int, int] = field(default_factory=dict)
    _calls_per_s: float = 0.0
    _stop_requested: bool = False
    """True if the ranks are asked to leave, and the call of `should_stop` at which they do so is not agreed yet."""

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(self.contract, self.clock())
        self.watchdog = Watchdog(self.contract, self.supervisor, self._warn, self.clock)
        self.verdict = asyncio.get_running_loop().create_future()

    async def run(self) -> Finish:
        """Tick until there is a verdict."""
        while not self.verdict.done():
            await self._execute(self.supervisor.tick(self.clock()))
            if self.supervisor.state is GroupState.RUNNING:
                await self._execute(self.watchdog.check_hangs())
                await self._execute(self.watchdog.check_stalls())
            await asyncio.wait([self.verdict], timeout=_TICK_S)
        return self.verdict.result()

    async def handle(self, pod: int, event: PodEvent) -> None:  # noqa: PLR0912 - one case for each event
        now = self.clock()
        supervisor = self.supervisor
        match event:
            case PodReady(ip):
                await self._execute(supervisor.pod_ready(pod, ip, now))
            case PodStaging():
                supervisor.pod_staging(now)
                self.pods.send_to_head(event)
            case RankExited(exit_, age_s):
                if exit_.left_behind:
                    self._warn(f"left-{exit_.rank}", _describe_left_behind(exit_))
                self.watchdog.record_end(exit_.rank, exit_.sequence)
                await self._execute(supervisor.rank_exited(replace(exit_, at=now - age_s), now))
            case RankHeartbeat():
                self.watchdog.record_heartbeat(event)
            case ForwardedReport():
                self.pods.send_to_head(event)
            case Preempt():
                await self._preempt(now)
            case SafePoints(calls, calls_per_s):
                self._calls |= calls
                self._calls_per_s = max(self._calls_per_s, calls_per_s)
                await self._agree_on_stop()
            case RankStopped(rank, generation, stopped_s):
                if generation == supervisor.generation:
                    message = f"rank {rank} was stopped (SIGSTOP) {stopped_s:.0f} s ago and stays so"
                    await self._execute(supervisor.rank_hung(rank, message, now))
            case PodLost(why):
                await self._execute(supervisor.pod_lost(pod, why, now))
            case ServerReady(server):
                await self._execute(supervisor.server_ready(server, now))
            case ServerLost(server, why):
                await self._execute(supervisor.server_lost(server, why, now))

    async def _preempt(self, now: float) -> None:
        if self.supervisor.state in (GroupState.PREEMPTING, GroupState.DONE):
            return
        self._calls = {}
        self._stop_requested = True
        commands = self.supervisor.preempt(now)
        await self._broadcast(Preempt())
        await self._execute(commands)

    async def _agree_on_stop(self) -> None:
        """Choose the safe point at which all ranks stop, once every pod has reported how far its ranks are."""
        expected = {assignment.rank for assignment in self.supervisor.ranks} - set(self.supervisor.exits)
        if self._stop_requested and expected <= set(self._calls):
            self._stop_requested = False
            at = common_stop_call(list(self._calls.values()), self._calls_per_s)
            await self._broadcast(StopAtCall(at))

    def _warn(self, key: str, text: str) -> None:
        """Set a warning. An empty text withdraws it."""
        self.pods.send_to_head(ProgressWarning(key, text))

    async def _execute(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Start():
                    await self._start(command)
                case KillRanks():
                    await self._broadcast(command)
                case Resize():
                    self._calls = {}
                    self._stop_requested = True
                    await self._broadcast(command)
                case Finish():
                    if command.code == 0:
                        self.watchdog.clear_warnings()
                    await self._broadcast(FinishAttempt(command))
                    if not self.verdict.done():
                        self.verdict.set_result(command)

    async def _start(self, command: Start) -> None:
        address = self.supervisor.addresses[0]
        ports = free_ports(address, 3)
        found = await asyncio.to_thread(local_store.newest, self.contract.checkpoint)
        group = WorkerGroup(
            generation=command.generation,
            ranks=command.ranks,
            master_addr=address,
            master_port=ports[0],
            coordinator_port=ports[1],
            reduce_port=ports[2],
            restart_count=command.restart_count,
            resume_from=str(found.path) if found else "",
            resume_step=found.step if found else None,
        )
        self.watchdog.ranks_started()
        if command.why:
            self.pods.send_to_head(Restarted(command.generation, command.why))
        await self._broadcast(StartRanks(group))

    async def _broadcast(self, message: PodCommand) -> None:
        """Send to all pods at once. If a pod is gone, its own feed notices."""
        sends: list[Awaitable[Any]] = [self.pods.send(pod, message) for pod in list(self.supervisor.addresses)]
        await asyncio.gather(*sends, return_exceptions=True)


def _describe_left_behind(exit_: RankExit) -> str:
    return (
        f"rank {exit_.rank} ended and left running: {'; '.join(exit_.left_behind)}. They were ended with it: let the"
        " program wait for what it starts in the background (in a shell: wait)"
    )


def free_ports(address: str, count: int) -> list[int]:
    """Free TCP ports of `address`, different every time. Raises OSError if there are too few."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, 200):
        with socket.socket(family_of(address), socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(errno.EADDRINUSE, f"no {count} free ports on {address} in {_PORTS}")
