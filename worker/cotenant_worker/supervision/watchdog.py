"""Watches a running group: hangs and stalls become warnings of the job, then failures. No I/O.

Heartbeats of the ranks and answers of the pods come in with their times; `hangs` and `stalls` find what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from cotenant.contract import Contract
from cotenant_worker.supervision.commands import Command
from cotenant_worker.supervision.hangs import (
    WARN_AFTER_S,
    RankHeartbeat,
    find_hang,
    find_missing_rendezvous,
    find_too_large_meeting,
    hang_timeout_s,
    names_hang_timeout,
    rank_to_blame,
    time_allowed_s,
    timeout_for,
)
from cotenant_worker.supervision.stalls import FIRST_WARNING_S, find_stall, stall_timeout_s
from cotenant_worker.supervision.supervisor import Supervisor

POD_SILENT_S = 6.0
"""A pod that lives answers at least every five seconds (`pod_actor`)."""


@dataclass(slots=True)
class Watchdog:
    contract: Contract
    supervisor: Supervisor
    warn: Callable[[str, str], None]
    """(key, text) of a warning of the job. An empty text withdraws it."""
    clock: Callable[[], float]
    _heartbeats: dict[int, RankHeartbeat] = field(default_factory=dict)
    _last_contact: dict[int, float] = field(default_factory=dict)
    """Pod → the time of its actor's last answer; empty if the only pod is our own."""
    _started_at: float = 0.0
    """Time of the ranks' last start."""
    _reported_hang: int | None = None
    _reported_meeting: bool = False
    _reported_stall_s: float = 0.0

    def ranks_started(self) -> None:
        self._heartbeats = {}
        self._started_at = self.clock()

    def record_heartbeat(self, heartbeat: RankHeartbeat) -> None:
        self._heartbeats[heartbeat.rank] = heartbeat.following(self._heartbeats.get(heartbeat.rank), self.clock())

    def record_end(self, rank: int, sequence: int) -> None:
        """Note how many collectives a rank had entered at its end; -1 if unknown."""
        last = self._heartbeats.get(rank)
        if last is not None and sequence > last.sequence:
            self._heartbeats[rank] = replace(last, sequence=sequence)

    def record_contact(self, pod: int) -> None:
        """Note that the pod's actor has answered, even if it had no news."""
        self._last_contact[pod] = self.clock()

    def check_hangs(self) -> list[Command]:
        """Warn of a collective or rendezvous that hangs. Returns the supervisor's commands if it has hung for
        too long.
        """
        timeout_s = hang_timeout_s(self.contract)
        heartbeats, ranks, ended = self._current_generation()
        now, first_s = self.clock(), min(WARN_AFTER_S, timeout_s)
        self._warn_of_meeting(find_too_large_meeting(heartbeats, ranks, ended, now))
        hang = find_hang(heartbeats, ranks, ended, now, first_s)
        hang = hang or find_missing_rendezvous(heartbeats, ranks, ended, now, first_s)
        if hang is None:
            if self._reported_hang is not None:
                self.warn("hang", "")
            self._reported_hang = None
            return []
        named = names_hang_timeout(self.contract)
        timeout_s = time_allowed_s(hang, heartbeats, ended, now, named=named, timeout_s=timeout_s)
        if self._reported_hang != hang.sequence:
            self._reported_hang = hang.sequence
            self.warn("hang", f"{hang.message}. {_what_follows(timeout_s)}")
        if hang.for_s < timeout_for(hang, ended, timeout_s) or self._pod_silent(hang.missing):
            return []
        return self.supervisor.rank_hung(rank_to_blame(hang, ended), hang.message, now)

    def _warn_of_meeting(self, text: str) -> None:
        """Warn once when it begins, and withdraw the warning when it ends."""
        if bool(text) != self._reported_meeting:
            self._reported_meeting = bool(text)
            self.warn("meeting", text)

    def check_stalls(self) -> list[Command]:
        """Warn of a group that stands still. Returns the supervisor's commands if it does so for longer than the job
        allows.
        """
        if self.contract.mode == "rayTrain":
            return []  # its driver waits, while Ray Train's own workers step
        timeout_s, hang_s = stall_timeout_s(self.contract), hang_timeout_s(self.contract)
        first_s = FIRST_WARNING_S if timeout_s is None else min(FIRST_WARNING_S, timeout_s)
        heartbeats, ranks, ended = self._current_generation()
        live, now = set(ranks) - ended, self.clock()
        stall = find_stall(
            heartbeats,
            live,
            started_at=self._started_at,
            now=now,
            timeout_s=first_s,
            mismatch_timeout_s=min(WARN_AFTER_S, hang_s),
        )
        if stall is None:
            if self._reported_stall_s:
                self.warn("stall", "")
            self._reported_stall_s = 0.0
            return []
        if stall.all_heard_from and stall.for_s >= 2 * self._reported_stall_s and self._reported_hang is None:
            self._reported_stall_s = stall.for_s
            self.warn("stall", stall.message)
        if stall.mismatched and stall.for_s >= hang_s:
            return self.supervisor.rank_hung(stall.rank, stall.message, now)
        if timeout_s is not None and stall.for_s >= timeout_s and not self._pod_silent(live):
            return self.supervisor.group_stalled(stall.rank, stall.message, now)
        return []

    def clear_warnings(self) -> None:
        """Withdraw warnings: a job that ended well did not hang."""
        for key, warned in (("hang", self._reported_hang is not None), ("stall", self._reported_stall_s > 0)):
            if warned:
                self.warn(key, "")

    def _current_generation(self) -> tuple[list[RankHeartbeat], list[int], set[int]]:
        """(last heartbeats, ranks, ranks that have ended) of the current generation."""
        supervisor = self.supervisor
        found = [each for each in self._heartbeats.values() if each.generation == supervisor.generation]
        return found, [assignment.rank for assignment in supervisor.ranks], set(supervisor.exits)

    def _pod_silent(self, ranks: Collection[int]) -> bool:
        """True if the rank's whole pod is silent: then no program hangs, and Ray or the driver will soon report the
        loss.
        """
        pods = {assignment.pod for assignment in self.supervisor.ranks if assignment.rank in ranks}
        return any(self.clock() - self._last_contact.get(pod, self.clock()) > POD_SILENT_S for pod in pods)


def _what_follows(timeout_s: float) -> str:
    if timeout_s == float("inf"):
        return "The job goes on, because they do something; runtime.hangTimeout would end it"
    return f"The job ends after {timeout_s / 60:.0f} min of it: runtime.hangTimeout"
