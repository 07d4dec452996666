"""The conductor of an attempt: brings events of the pods to the supervisor and carries its commands out.

One per attempt, in rank 0's pod: over Ray actors in the driver, over the launcher itself where the group is one rank.
What differs is `Pods`.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cotenant.contract import Contract
from cotenant_worker.checkpoints import local_store
from cotenant_worker.messaging.shared_counters import common_stop_call
from cotenant_worker.supervision.commands import Command, Finish, Save, Start, Stop
from cotenant_worker.supervision.hangs import (
    WARN_AFTER_S,
    RankHeartbeat,
    find_hang,
    find_missing_rendezvous,
    hang_timeout_s,
    rank_to_blame,
    timeout_for,
)
from cotenant_worker.supervision.messages import (
    FinishAttempt,
    ForwardedReport,
    HeadMessage,
    KillRanks,
    PodCommand,
    PodEvent,
    PodLost,
    PodReady,
    Preempt,
    ProgressWarning,
    RankExited,
    RankStopped,
    Resize,
    Restarted,
    SafePoints,
    ServerLost,
    ServerReady,
    StartRanks,
    StopAtCall,
)
from cotenant_worker.supervision.stalls import FIRST_WARNING_S, find_stall, stall_timeout_s
from cotenant_worker.supervision.supervisor import GroupState, Supervisor
from cotenant_worker.supervision.worker_group import WorkerGroup

_TICK_S = 0.1
POD_SILENT_S = 6.0
"""A pod that lives answers at least every five seconds (`pod_actor`)."""
_PORTS = range(24000, 30000)
"""Below the ephemeral range, so that no outgoing connection takes the port between our look and the rank's bind."""


class Pods(Protocol):
    """The pods of the attempt, as the conductor sees them."""

    async def send(self, pod: int, message: PodCommand) -> None: ...

    def send_to_head(self, message: HeadMessage) -> None:
        """To the launcher of rank 0's pod: progress, warnings."""


@dataclass(slots=True)
class Conductor:
    contract: Contract
    pods: Pods
    clock: Callable[[], float] = time.monotonic
    supervisor: Supervisor = field(init=False)
    verdict: asyncio.Future[Finish] = field(init=False)
    _heartbeats: dict[int, RankHeartbeat] = field(default_factory=dict)
    _last_contact: dict[int, float] = field(default_factory=dict)
    """Pod → the time its actor last answered; empty where the only pod is our own."""
    _calls: dict[int, int] = field(default_factory=dict)
    _calls_per_s: float = 0.0
    _stop_reason: str = ""
    _reported_hang: int | None = None
    _started_at: float = 0.0
    """Of the ranks' last start."""
    _reported_stall_s: float = 0.0

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(self.contract, self.clock())
        self.verdict = asyncio.get_running_loop().create_future()

    async def run(self) -> Finish:
        """Tick until there is a verdict."""
        while not self.verdict.done():
            await self._execute(self.supervisor.tick(self.clock()))
            if self.supervisor.state is GroupState.RUNNING:
                await self._check_hangs()
                await self._check_stalls()
            await asyncio.wait([self.verdict], timeout=_TICK_S)
        return self.verdict.result()

    def record_contact(self, pod: int) -> None:
        """Note that the pod's actor has answered, if only that there is nothing new."""
        self._last_contact[pod] = self.clock()

    async def handle(self, pod: int, event: PodEvent) -> None:
        """Act on one event of one pod."""
        now = self.clock()
        supervisor = self.supervisor
        match event:
            case PodReady(ip):
                await self._execute(supervisor.pod_ready(pod, ip, now))
            case RankExited(exit_, age_s):
                await self._execute(supervisor.rank_exited(replace(exit_, at=now - age_s), now))
            case RankHeartbeat(rank):
                self._heartbeats[rank] = event.following(self._heartbeats.get(rank), now)
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
        self._stop_reason = "preempt"
        commands = self.supervisor.preempt(now)
        await self._broadcast(Preempt())
        await self._execute(commands)

    async def _agree_on_stop(self) -> None:
        """Name the safe point at which all ranks stop, once every pod has reported how far its ranks are."""
        expected = {assignment.rank for assignment in self.supervisor.ranks} - set(self.supervisor.exits)
        if self._stop_reason and expected <= set(self._calls):
            self._stop_reason = ""
            at = common_stop_call(list(self._calls.values()), self._calls_per_s)
            await self._broadcast(StopAtCall(at))

    async def _check_hangs(self) -> None:
        patience = hang_timeout_s(self.contract)
        beats, ranks, ended = self._current_generation()
        now, first_s = self.clock(), min(WARN_AFTER_S, patience)
        hang = find_hang(beats, ranks, ended, now, first_s) or find_missing_rendezvous(
            beats, ranks, ended, now, first_s
        )
        if hang is None:
            if self._reported_hang is not None:
                self._warn("hang", "")
            self._reported_hang = None
            return
        if self._reported_hang != hang.sequence:
            self._reported_hang = hang.sequence
            self._warn("hang", hang.message)
        if hang.for_s >= timeout_for(hang, ended, patience) and not self._pod_silent(hang.missing):
            await self._execute(self.supervisor.rank_hung(rank_to_blame(hang, ended), hang.message, self.clock()))

    async def _check_stalls(self) -> None:
        if self.contract.mode == "rayTrain":
            return  # its driver waits, while Ray Train's own workers step
        timeout_s, hang_s = stall_timeout_s(self.contract), hang_timeout_s(self.contract)
        first_s = FIRST_WARNING_S if timeout_s is None else min(FIRST_WARNING_S, timeout_s)
        beats, ranks, ended = self._current_generation()
        live, now = set(ranks) - ended, self.clock()
        stall = find_stall(
            beats,
            live,
            started_at=self._started_at,
            now=now,
            timeout_s=first_s,
            mismatch_timeout_s=min(WARN_AFTER_S, hang_s),
        )
        if stall is None:
            if self._reported_stall_s:
                self._warn("stall", "")
            self._reported_stall_s = 0.0
            return
        if stall.all_heard_from and stall.for_s >= 2 * self._reported_stall_s and self._reported_hang is None:
            self._reported_stall_s = stall.for_s
            self._warn("stall", stall.message)
        if stall.mismatched and stall.for_s >= hang_s:
            await self._execute(self.supervisor.rank_hung(stall.rank, stall.message, now))
        elif timeout_s is not None and stall.for_s >= timeout_s and not self._pod_silent(live):
            await self._execute(self.supervisor.group_stalled(stall.rank, stall.message, now))

    def _warn(self, key: str, text: str) -> None:
        """An empty text takes the warning back."""
        self.pods.send_to_head(ProgressWarning(key, text))

    def _clear_warnings(self) -> None:
        """A job that went well in the end did not hang."""
        for key, told in (("hang", self._reported_hang is not None), ("stall", self._reported_stall_s > 0)):
            if told:
                self._warn(key, "")

    def _current_generation(self) -> tuple[list[RankHeartbeat], list[int], set[int]]:
        """(last heartbeats, ranks, ranks that have ended) of the current generation."""
        supervisor = self.supervisor
        beats = [beat for beat in self._heartbeats.values() if beat.generation == supervisor.generation]
        return beats, [assignment.rank for assignment in supervisor.ranks], set(supervisor.exits)

    def _pod_silent(self, ranks: Collection[int]) -> bool:
        """A rank whose whole pod is silent is no program that hangs: Ray, or the driver, reports the loss soon."""
        pods = {assignment.pod for assignment in self.supervisor.ranks if assignment.rank in ranks}
        return any(self.clock() - self._last_contact.get(pod, self.clock()) > POD_SILENT_S for pod in pods)

    async def _execute(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Start():
                    await self._start(command)
                case Stop(generation):
                    await self._broadcast(KillRanks(generation))
                case Save():
                    self._calls = {}
                    self._stop_reason = "resize"
                    await self._broadcast(Resize())
                case Finish():
                    if command.code == 0:
                        self._clear_warnings()
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
        self._heartbeats = {}
        self._started_at = self.clock()
        if command.why:
            self.pods.send_to_head(Restarted(command.generation, command.why))
        await self._broadcast(StartRanks(group))

    async def _broadcast(self, message: PodCommand) -> None:
        """Send to all pods at once; a pod that is gone is noticed by its own feed, not here."""
        sends: list[Awaitable[Any]] = [self.pods.send(pod, message) for pod in list(self.supervisor.addresses)]
        await asyncio.gather(*sends, return_exceptions=True)


def free_ports(address: str, count: int) -> list[int]:
    """Free TCP ports of `address`, different every time; OSError where there are not so many."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, 200):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
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
