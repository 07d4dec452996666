"""The state machine of a group of ranks: start, failure, restart, end. Pure.

Events come in with their time, and commands come out, which the conductor executes. As in torchelastic's agent, a
failure stops the whole group. Unlike there, only ranks that were killed from outside are started again in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cotenant import names
from cotenant.contract import Contract
from cotenant_worker.supervision.commands import Command, Finish, KillRanks, Resize, Start
from cotenant_worker.supervision.failure_cause import (
    EVERY_RANK_HINT,
    FailureCause,
    RankExit,
    first_cause,
    hidden_failure,
)
from cotenant_worker.supervision.leave_budget import leave_budget_s
from cotenant_worker.supervision.worker_group import RankAssignment, assign_ranks


class GroupState(StrEnum):
    FORMING = "forming"
    RUNNING = "running"
    SETTLING = "settling"
    """A rank failed. The ends of others may still explain it."""
    STOPPING = "stopping"
    PREEMPTING = "preempting"
    DONE = "done"


SETTLE_S = 0.5
"""Time after a first failure for a better explanation."""
COLLATERAL_S = 20.0
"""Time for the peer's failure, if all failures blame a peer: Ray notices a lost pod after some seconds."""
STOP_S = 10.0
WORKED_S = 600.0
"""A group that ran for this long has worked, even if nobody saw a step of it."""
_NEW_PODS = (
    "it could not start again in place after a rank had been killed, perhaps because of what the start before had left"
    " (mkdir without -p). A new attempt starts in new pods"
)
MAX_KILL_RESTARTS = 20
"""Restarts in place of ranks killed from outside (SIGKILL without an out-of-memory kill), which cost the job nothing.

If a rank is killed twice in a row without a step in between, the program is the cause.
"""


@dataclass(slots=True)
class Supervisor:
    contract: Contract
    started_at: float
    state: GroupState = GroupState.FORMING
    generation: int = 0
    kill_restarts: int = 0
    """Restarts in place so far. A program's own failure ends the attempt: the operator counts it against `retries`."""
    addresses: dict[int, str] = field(default_factory=dict)
    ranks: tuple[RankAssignment, ...] = ()
    exits: dict[int, RankExit] = field(default_factory=dict)
    ready_servers: set[int] = field(default_factory=set)
    """Parameter servers that have connected."""
    _begun_at: float = 0.0
    _idle_kills: int = 0
    """How often in a row a rank was killed before the group had made a step."""
    _deadline: float = 0.0
    _after_stop: Command | None = None
    """What follows when the running generation has stopped."""

    # -- events -----------------------------------------------------------------------------------------------

    def pod_ready(self, pod: int, ip: str, now: float) -> list[Command]:
        self.addresses[pod] = ip
        if self.state is GroupState.FORMING:
            return self._start_when_complete(now)
        if self.state is GroupState.RUNNING and pod not in {assignment.pod for assignment in self.ranks}:
            self._deadline = now + max(5.0, self.contract.grace_s - 5.0)
            return self._stop_then(
                self._next_generation(f"pod {pod} joined; the world grows"), now, save=True, wait_s=self._deadline - now
            )
        return []

    def pod_staging(self, now: float) -> None:
        """A pod fetches its data, so the time in which all pods have to join starts again."""
        self.started_at = max(self.started_at, now)

    def pod_lost(self, pod: int, why: str, now: float) -> list[Command]:
        if self.addresses.pop(pod, None) is None:
            return []  # not there, or reported twice: by its launcher's end and by its node's
        if self.state in (GroupState.FORMING, GroupState.PREEMPTING, GroupState.DONE):
            return []
        if self.contract.mode == "rayTrain" and pod != 0 and self.contract.workers_min:
            return []  # Ray Train shrinks its own world
        self.mark_ranks_gone(pod, now)
        left = assign_ranks(self.contract, self.addresses)
        if 0 in self.addresses and 0 < self.contract.workers_min <= len(left):
            return self._stop_then(self._next_generation(f"pod {pod} was lost ({why}); the world shrinks"), now)
        message = f"pod {pod} ({self.contract.pods[pod].host}) was lost: {why}"
        return self._stop_then(Finish(names.EXIT_PEER_LOST, "PeerLost", message), now)

    def server_ready(self, server: int, now: float) -> list[Command]:
        self.ready_servers.add(server)
        return self._start_when_complete(now) if self.state is GroupState.FORMING else []

    def server_lost(self, server: int, why: str, now: float) -> list[Command]:
        """A parameter server is lost, and its parameters with it. A new attempt continues from the last checkpoint."""
        self.ready_servers.discard(server)
        if self.state in (GroupState.FORMING, GroupState.PREEMPTING, GroupState.DONE):
            return []
        message = f"the pod of parameter server {server} ({self.contract.servers[server]}) was lost: {why}"
        return self._stop_then(Finish(names.EXIT_PEER_LOST, "PeerLost", message), now)

    def mark_ranks_gone(self, pod: int, now: float) -> None:
        """Ranks of a lost pod will not report their end."""
        for assignment in self.ranks:
            if assignment.pod == pod and assignment.rank not in self.exits:
                self.exits[assignment.rank] = RankExit(assignment.rank, self.generation, None, None, now, stopped=True)

    def rank_exited(self, exit_: RankExit, now: float) -> list[Command]:
        if exit_.generation != self.generation or self.state is GroupState.DONE or exit_.rank in self.exits:
            return []  # of an older generation, or sent twice: by a pod to its next actor
        self.exits[exit_.rank] = exit_
        if self.state in (GroupState.STOPPING, GroupState.PREEMPTING):
            return self._advance_stop(now)
        if self.state is GroupState.RUNNING:
            if not exit_.failed:
                return self._completed() if len(self.exits) == len(self.ranks) else []
            self.state = GroupState.SETTLING
            self._deadline = now + (0.0 if exit_.conclusive else SETTLE_S if not exit_.collateral else COLLATERAL_S)
        elif self.state is GroupState.SETTLING and exit_.failed and not exit_.collateral:
            self._deadline = min(self._deadline, now + SETTLE_S)
        return self.tick(now)

    def rank_hung(self, rank: int, message: str, now: float) -> list[Command]:
        """A rank keeps others, or the whole job, waiting and will not continue."""
        left = self.exits.get(rank)
        if left is None or left.code != 0:
            return self._fail("HungCollective", rank, message, now)
        why = f"rank {rank} ended with 0 although others wait for it: {message}. {EVERY_RANK_HINT}"
        return self._fail("ExitedEarly", rank, why, now)

    def group_stalled(self, rank: int, message: str, now: float) -> list[Command]:
        """The group has stood still for as long as the job allows."""
        return self._fail("Stalled", rank, message, now)

    def _fail(self, reason: str, rank: int, message: str, now: float) -> list[Command]:
        if self.state is not GroupState.RUNNING:
            return []
        return self._restart_or_finish(FailureCause(reason, rank, 1, None, message), now)

    def preempt(self, now: float) -> list[Command]:
        if self.state in (GroupState.DONE, GroupState.PREEMPTING):
            return []
        forming = self.state is GroupState.FORMING
        self.state = GroupState.PREEMPTING
        self._deadline = now + leave_budget_s(self.contract) + 1.0  # their launchers see to it before
        self._after_stop = Finish(names.EXIT_PREEMPTED, "Preempted", "asked to stop")
        return self._advance_stop(now) if not forming else self._finish(self._after_stop)

    def tick(self, now: float) -> list[Command]:
        if self.state is GroupState.FORMING and now > self.started_at + self.contract.rendezvous_timeout_s:
            return self._finish(self._rendezvous_timeout())
        if self.state is GroupState.SETTLING and (now >= self._deadline or self._causes_known()):
            return self._restart_or_finish(first_cause(list(self.exits.values()), len(self.ranks)), now)
        if self.state in (GroupState.STOPPING, GroupState.PREEMPTING):
            return self._advance_stop(now)
        return []

    # -- rules ------------------------------------------------------------------------------------------------

    def _start_when_complete(self, now: float) -> list[Command]:
        """Start the first generation once all pods and servers are there."""
        pods_ready = len(self.addresses) == len(self.contract.pods)
        complete = pods_ready and len(self.ready_servers) == len(self.contract.servers)
        return self._start(now, "") if complete else []

    def _causes_known(self) -> bool:
        """All ranks have ended and the cause is known. If every rank blames a peer, wait: a server-loss message may
        still arrive.
        """
        blame_a_server = bool(self.contract.servers) and all(each.collateral for each in self.exits.values())
        return len(self.exits) == len(self.ranks) and not blame_a_server

    def _start(self, now: float, why: str) -> list[Command]:
        self.ranks = assign_ranks(self.contract, self.addresses)
        self.exits = {}
        self._begun_at = now
        self.state = GroupState.RUNNING
        return [Start(self.generation, self.ranks, self.kill_restarts, why)]

    def _next_generation(self, why: str) -> Start:
        return Start(self.generation + 1, (), self.kill_restarts, why)

    def _completed(self) -> list[Command]:
        who = f"all {len(self.ranks)} ranks" if len(self.ranks) > 1 else "the program"
        hidden = next(filter(None, map(hidden_failure, self.exits.values())), "")
        return self._finish(Finish(0, "Completed", f"{who} ended with 0{hidden}"))

    def _restart_or_finish(self, cause: FailureCause, now: float) -> list[Command]:
        """Start again in place after this cause of a failure, or end the attempt."""
        worked = any(each.worked for each in self.exits.values()) or now - self._begun_at >= WORKED_S
        self._idle_kills = self._idle_kills + 1 if cause.killed and not worked else 0
        if cause.killed and self.kill_restarts < MAX_KILL_RESTARTS and self._idle_kills < 2:
            self.kill_restarts += 1
            return self._stop_then(self._next_generation(cause.message), now)
        pod = next((assignment.pod for assignment in self.ranks if assignment.rank == cause.rank), None)
        code, reason, message = cause.code, cause.reason, cause.message
        if cause.killed:
            times = f"{self.kill_restarts} times" if self.kill_restarts > 1 else "once"
            idle = ", and made no step in between" if self._idle_kills else ""
            message += f"; the ranks had been started again {times}, each time that one was killed{idle}"
        elif self.kill_restarts and not worked and reason == "UserError":
            code, reason, message = names.EXIT_PEER_LOST, "RestartFailed", f"{message}; {_NEW_PODS}"
        return self._stop_then(Finish(code, reason, message, cause.rank, cause.signal, cause.tail, pod), now)

    def _stop_then(
        self, following: Command, now: float, *, save: bool = False, wait_s: float = STOP_S
    ) -> list[Command]:
        self.state = GroupState.STOPPING
        self._after_stop = following
        self._deadline = now + wait_s
        order: Command = Resize() if save else KillRanks(self.generation)
        return [order, *self._advance_stop(now)]

    def _advance_stop(self, now: float) -> list[Command]:
        """Take the next step once no process of the stopping generation is left."""
        following = self._after_stop
        if following is None or (len(self.exits) < len(self.ranks) and now < self._deadline):
            return []
        self._after_stop = None
        if isinstance(following, Start):
            stragglers = len(self.exits) < len(self.ranks)
            self.generation = following.generation
            commands = self._start(now, following.why)
            return [KillRanks(self.generation - 1), *commands] if stragglers else commands
        assert isinstance(following, Finish)
        return self._finish(following)

    def _finish(self, verdict: Finish) -> list[Command]:
        self.state = GroupState.DONE
        return [verdict]

    def _rendezvous_timeout(self) -> Finish:
        missing = [
            f"pod {pod} ({grant.host})" for pod, grant in enumerate(self.contract.pods) if pod not in self.addresses
        ] + [
            f"the pod of parameter server {server} ({host})"
            for server, host in enumerate(self.contract.servers)
            if server not in self.ready_servers
        ]
        return Finish(
            names.EXIT_RENDEZVOUS_TIMEOUT,
            "RendezvousTimeout",
            f"{', '.join(missing)} did not join within {self.contract.rendezvous_timeout_s} s",
        )
