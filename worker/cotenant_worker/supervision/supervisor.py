"""What happens to a world of ranks: start, failure, restart, end. A pure state machine.

Events come in with their time, commands come out. It runs in the driver of rank 0's pod, or inside the launcher when
the world is one rank; neither knows the rules, both only carry commands out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cotenant import names
from cotenant.contract import Contract
from cotenant_worker.supervision.commands import Command, Finish, Save, Start, Stop
from cotenant_worker.supervision.failure_cause import TOGETHER, Cause, RankExit, first_cause
from cotenant_worker.supervision.worker_group import Member, members_of


class State(StrEnum):
    FORMING = "forming"
    RUNNING = "running"
    SETTLING = "settling"
    """A rank failed; others may still tell why."""
    STOPPING = "stopping"
    PREEMPTING = "preempting"
    DONE = "done"


SETTLE_S = 0.5
"""How long a first failure waits for a better explanation."""
COLLATERAL_S = 20.0
"""How long failures that only say "my peer went" wait for the peer: a lost pod takes Ray some seconds to notice."""
STOP_S = 10.0
KILL_RESTARTS = 20
"""Ranks killed from outside (SIGKILL without an out-of-memory kill) are restarted this often, at nobody's expense."""


def time_to_leave(contract: Contract) -> float:
    """Seconds that ranks have when a pod is asked to go: five are kept for ourselves, less of a short grace period."""
    return max(1.0, contract.grace_s - min(5.0, contract.grace_s / 4))


@dataclass(slots=True)
class Supervisor:
    contract: Contract
    started_at: float
    state: State = State.FORMING
    generation: int = 0
    kills: int = 0
    """Restarts in place. A program's own failure ends the attempt: the operator counts those against `retries`."""
    addresses: dict[int, str] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    exits: dict[int, RankExit] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    servers: set[int] = field(default_factory=set)
    """Parameter servers that are there."""
    _until: float = 0.0
    _next: Command | None = None
    """What follows when the running generation has stopped."""

    # -- events -----------------------------------------------------------------------------------------------

    def pod_ready(self, pod: int, ip: str, now: float) -> list[Command]:
        self.addresses[pod] = ip
        self.lost.pop(pod, None)
        if self.state is State.FORMING:
            return self._begin(now)
        if self.state is State.RUNNING and pod not in {member.pod for member in self.members}:
            self._until = now + max(5.0, self.contract.grace_s - 5.0)
            return self._stop_for(
                self._planned_start(f"pod {pod} joined; the world grows"), now, save=True, wait_s=self._until - now
            )
        return []

    def pod_lost(self, pod: int, why: str, now: float) -> list[Command]:
        self.lost[pod] = why
        if self.addresses.pop(pod, None) is None:
            return []  # not there, or told twice: by its launcher's end and by its node's
        if self.state in (State.DONE, State.PREEMPTING):
            return []
        if self.state is State.FORMING:
            return []
        if self.contract.mode == "rayTrain" and pod != 0 and self.contract.workers_min:
            return []  # Ray Train shrinks its own world
        self.members_gone(pod, now)
        left = members_of(self.contract, self.addresses)
        if 0 in self.addresses and 0 < self.contract.workers_min <= len(left):
            return self._stop_for(self._planned_start(f"pod {pod} was lost ({why}); the world shrinks"), now)
        message = f"pod {pod} ({self.contract.pods[pod].host}) was lost: {why}"
        return self._stop_for(Finish(names.EXIT_PEER_LOST, "PeerLost", message), now)

    def server_ready(self, server: int, now: float) -> list[Command]:
        self.servers.add(server)
        return self._begin(now) if self.state is State.FORMING else []

    def server_lost(self, server: int, why: str, now: float) -> list[Command]:
        """What it held is gone: the ranks go on from the last checkpoint, in a new attempt."""
        self.servers.discard(server)
        if self.state in (State.FORMING, State.PREEMPTING, State.DONE):
            return []
        message = f"the pod of parameter server {server} ({self.contract.servers[server]}) was lost: {why}"
        return self._stop_for(Finish(names.EXIT_PEER_LOST, "PeerLost", message), now)

    def members_gone(self, pod: int, now: float) -> None:
        """Ranks of a lost pod will not report their end."""
        for member in self.members:
            if member.pod == pod and member.rank not in self.exits:
                self.exits[member.rank] = RankExit(member.rank, self.generation, None, None, now, stopped=True)

    def rank_exited(self, exit_: RankExit, now: float) -> list[Command]:
        if exit_.generation != self.generation or self.state is State.DONE or exit_.rank in self.exits:
            return []  # of an older start, or said twice: by a pod to its next actor
        self.exits[exit_.rank] = exit_
        if self.state in (State.STOPPING, State.PREEMPTING):
            return self._settle(now)
        if self.state is State.RUNNING:
            if not exit_.failed:
                return self._completed() if len(self.exits) == len(self.members) else []
            self.state = State.SETTLING
            self._until = now + (0.0 if exit_.conclusive else SETTLE_S if not exit_.collateral else COLLATERAL_S)
        elif self.state is State.SETTLING and exit_.failed and not exit_.collateral:
            self._until = min(self._until, now + SETTLE_S)
        return self.tick(now)

    def hung(self, rank: int, message: str, now: float) -> list[Command]:
        """This rank keeps others waiting, or the whole job, and will not go on."""
        left = self.exits.get(rank)
        if left is None or left.code != 0:
            return self._given_up("HungCollective", rank, message, now)
        why = f"rank {rank} ended with 0 although others wait for it: {message}. {TOGETHER}"
        return self._given_up("ExitedEarly", rank, why, now)

    def stalled(self, rank: int, message: str, now: float) -> list[Command]:
        """Nothing has got on for as long as the job allows."""
        return self._given_up("Stalled", rank, message, now)

    def _given_up(self, reason: str, rank: int, message: str, now: float) -> list[Command]:
        if self.state is not State.RUNNING:
            return []
        return self._after(Cause(reason, rank, 1, None, message), now)

    def preempt(self, now: float) -> list[Command]:
        if self.state in (State.DONE, State.PREEMPTING):
            return []
        forming = self.state is State.FORMING
        self.state = State.PREEMPTING
        self._until = now + time_to_leave(self.contract) + 1.0  # their launchers see to it before
        self._next = Finish(names.EXIT_PREEMPTED, "Preempted", "asked to stop")
        return self._settle(now) if not forming else self._finish(self._next)

    def tick(self, now: float) -> list[Command]:
        if self.state is State.FORMING and now > self.started_at + self.contract.rendezvous_timeout_s:
            return self._finish(self._rendezvous_failed())
        if self.state is State.SETTLING and (now >= self._until or self._all_said()):
            return self._after(first_cause(list(self.exits.values())), now)
        if self.state in (State.STOPPING, State.PREEMPTING):
            return self._settle(now)
        return []

    # -- rules ------------------------------------------------------------------------------------------------

    def _begin(self, now: float) -> list[Command]:
        """The first start, once everybody has come."""
        everybody = len(self.addresses) == len(self.contract.pods) and len(self.servers) == len(self.contract.servers)
        return self._start(now, "") if everybody else []

    def _all_said(self) -> bool:
        """Every rank has ended; but where all of them blame a peer, that may be a server, whose loss is told soon."""
        blame_a_server = bool(self.contract.servers) and all(each.collateral for each in self.exits.values())
        return len(self.exits) == len(self.members) and not blame_a_server

    def _start(self, now: float, why: str) -> list[Command]:
        self.members = members_of(self.contract, self.addresses)
        self.exits = {}
        self.state = State.RUNNING
        return [Start(self.generation, self.members, self.kills, why)]

    def _planned_start(self, why: str) -> Start:
        return Start(self.generation + 1, (), self.kills, why)

    def _completed(self) -> list[Command]:
        who = f"all {len(self.members)} ranks" if len(self.members) > 1 else "the program"
        return self._finish(Finish(0, "Completed", f"{who} ended with 0"))

    def _after(self, cause: Cause, now: float) -> list[Command]:
        """A generation failed by this cause: again in place, or the end."""
        if cause.killed and self.kills < KILL_RESTARTS:
            self.kills += 1
            return self._stop_for(self._planned_start(cause.message), now)
        pod = next((member.pod for member in self.members if member.rank == cause.rank), None)
        again = f"; the ranks had been started again {self.kills} times, each time that one was killed"
        message = cause.message + (again if cause.killed else "")
        finish = Finish(cause.code, cause.reason, message, cause.rank, cause.signal, cause.tail, pod)
        return self._stop_for(finish, now)

    def _stop_for(self, following: Command, now: float, *, save: bool = False, wait_s: float = STOP_S) -> list[Command]:
        self.state = State.STOPPING
        self._next = following
        self._until = now + wait_s
        order: Command = Save(self.generation) if save else Stop(self.generation)
        return [order, *self._settle(now)]

    def _settle(self, now: float) -> list[Command]:
        """The generation is being stopped: when nothing of it is left, go on."""
        following = self._next
        if following is None or (len(self.exits) < len(self.members) and now < self._until):
            return []
        self._next = None
        if isinstance(following, Start):
            stragglers = len(self.exits) < len(self.members)
            self.generation = following.generation
            commands = self._start(now, following.why)
            return [Stop(self.generation - 1), *commands] if stragglers else commands
        assert isinstance(following, Finish)
        return self._finish(following)

    def _finish(self, verdict: Finish) -> list[Command]:
        self.state = State.DONE
        return [verdict]

    def _rendezvous_failed(self) -> Finish:
        missing = [
            f"pod {pod} ({grant.host})" for pod, grant in enumerate(self.contract.pods) if pod not in self.addresses
        ] + [
            f"the pod of parameter server {server} ({host})"
            for server, host in enumerate(self.contract.servers)
            if server not in self.servers
        ]
        return Finish(
            names.EXIT_RENDEZVOUS_TIMEOUT,
            "RendezvousTimeout",
            f"{', '.join(missing)} did not join within {self.contract.rendezvous_timeout_s} s",
        )
