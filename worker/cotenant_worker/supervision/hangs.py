"""Detects a collective, or a rendezvous before the first one, that will not end, and the missing ranks. Pure.

Every rank counts the collectives that it has entered. In a healthy group the counts differ for moments only. If the
ranks that are ahead have stood still for long, these are missing: ranks that have entered fewer, and ranks that have
entered as many but whose heartbeats have stopped for as long, because they are frozen in the middle.

Before that, ranks wait for each other in `init_process_group`, or to form the group of `all_reduce`. While no rank has
come there, all of them may be loading data. Once some have come, the others are missing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from cotenant.contract import Contract
from cotenant_worker.messaging.records import record

WARN_AFTER_S = 30.0
"""A hang of this length becomes a warning of the job."""
_HANG_TIMEOUT_S = 600
"""As long as torch lets NCCL wait, so that programs that train under torchrun train here too, for instance if one rank
evaluates alone.
"""
_POINT_TO_POINT = frozenset(
    {"send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list"}
)
"""Traffic between two ranks. gloo counts it like a collective, but the others take no part in it."""


def hang_timeout_s(contract: Contract) -> float:
    """Seconds after which a hang ends the ranks: `runtime.hangTimeout`."""
    return float(contract.platform.get("hangTimeoutSeconds", _HANG_TIMEOUT_S))


def names_hang_timeout(contract: Contract) -> bool:
    """True if the job itself says how long a hang may last."""
    return "hangTimeoutSeconds" in contract.platform


@record
class RankHeartbeat:
    """A rank's state, sent by its heartbeat thread twice a second."""

    rank: int
    generation: int
    sequence: int
    """Collectives entered; -1 if the program uses none that can be counted."""
    location: str = ""
    """The main thread's innermost line of user code."""
    seen_at: float = 0.0
    moved_at: float = 0.0
    rendezvous_count: int = 0
    """Arrivals at `init_process_group`."""
    in_rendezvous: bool = False
    """True while it waits there."""
    meeting: int = 0
    """Number of processes that meet there, itself included; 0 if unknown."""
    rendezvoused: bool = False
    """True if it has met all ranks of the job, so each of them has begun to send heartbeats."""
    loop_count: int = 0
    """Iterations of its loop: steps, reports, calls of `should_stop`."""
    looped_at: float = 0.0
    collective: str = ""
    """The collective of torch that it is in, of any group."""
    uncounted: bool = False
    """True if it does nothing that is counted, so its progress cannot be seen."""
    timeout_s: float = 0.0
    """Seconds that the program itself lets a collective take; 0 if unknown."""

    def waits(self, now: float, timeout_s: float) -> bool:
        """True if it may be inside a collective: one of torch if that is seen, otherwise if its loop has not moved."""
        if self.collective:
            return self.collective not in _POINT_TO_POINT
        return now - self.looped_at >= timeout_s

    @property
    def progress(self) -> tuple[int, int, int, bool]:
        """The part that changes when the rank makes progress."""
        return (self.generation, self.sequence, self.rendezvous_count, self.in_rendezvous)

    def following(self, before: RankHeartbeat | None, now: float) -> RankHeartbeat:
        """This heartbeat, received at `now`, with the times of what has not changed since `before`."""
        moved = before is None or before.progress != self.progress
        turned = before is None or before.loop_count != self.loop_count
        return replace(
            self,
            seen_at=now,
            moved_at=now if moved or before is None else before.moved_at,
            looped_at=now if turned or before is None else before.looped_at,
        )


@record
class Hang:
    sequence: int
    """Of the collective; less than 0 for a rendezvous."""
    missing: tuple[int, ...]
    for_s: float
    message: str


def find_hang(
    heartbeats: Sequence[RankHeartbeat], ranks: Collection[int], ended: Collection[int], now: float, timeout_s: float
) -> Hang | None:
    """Find the collective that hangs. `ranks` are all ranks of this generation, `ended` those that have left."""
    heartbeats = [*heartbeats, *_silent_ranks(heartbeats, ranks, ended)]
    # One that fell silent before it counted its first stands at none, while others have gone on to theirs.
    counted = [heartbeat for heartbeat in heartbeats if heartbeat.sequence >= 0 or now - heartbeat.seen_at >= timeout_s]
    waiting_at = max((heartbeat.sequence for heartbeat in counted), default=0)
    frozen = {
        heartbeat.rank for heartbeat in counted if heartbeat.rank not in ended and now - heartbeat.seen_at >= timeout_s
    }
    behind = [heartbeat for heartbeat in counted if heartbeat.sequence < waiting_at or heartbeat.rank in frozen]
    ahead = [heartbeat for heartbeat in counted if heartbeat not in behind and heartbeat.rank not in ended]
    ahead = [heartbeat for heartbeat in ahead if heartbeat.waits(now, timeout_s)]
    all_have_left = all(heartbeat.rank in ended for heartbeat in behind)
    if not ahead or not behind or (all_have_left and not any(heartbeat.collective for heartbeat in ahead)):
        return None  # a rank that is in no collective waits for nobody: it may export what all have trained
    for_s = now - max(heartbeat.moved_at for heartbeat in (*ahead, *behind))
    if for_s < timeout_s:
        return None
    missing = sorted(behind, key=lambda heartbeat: (heartbeat.sequence, heartbeat.rank))
    described = "; ".join(_describe(heartbeat, ended, now) for heartbeat in missing[:4])
    return Hang(
        waiting_at,
        tuple(heartbeat.rank for heartbeat in missing),
        for_s,
        f"{len(ahead)} rank(s) have waited {for_s:.0f} s in collective {waiting_at} for {len(missing)} that did not"
        f" come: {described}",
    )


def _silent_ranks(
    heartbeats: Sequence[RankHeartbeat], ranks: Collection[int], ended: Collection[int]
) -> list[RankHeartbeat]:
    """Ranks that froze between the rendezvous and their first heartbeat. Other ranks prove that it took place."""
    if not any(heartbeat.rendezvoused for heartbeat in heartbeats):
        return []
    silent = set(ranks) - {heartbeat.rank for heartbeat in heartbeats} - set(ended)
    since = min(heartbeat.moved_at for heartbeat in heartbeats)
    return [RankHeartbeat(rank, heartbeats[0].generation, -1, seen_at=since, moved_at=since) for rank in sorted(silent)]


def find_missing_rendezvous(
    heartbeats: Sequence[RankHeartbeat], ranks: Collection[int], ended: Collection[int], now: float, timeout_s: float
) -> Hang | None:
    """Find the rendezvous that hangs. `ranks` are all ranks of this generation."""
    known = {heartbeat.rank: heartbeat for heartbeat in heartbeats}
    inside = [heartbeat for heartbeat in heartbeats if heartbeat.in_rendezvous and heartbeat.rank not in ended]
    frozen = {heartbeat.rank for heartbeat in inside if now - heartbeat.seen_at >= timeout_s}
    waiting = [heartbeat for heartbeat in inside if heartbeat.rank not in frozen]
    if not waiting:
        return None
    meeting = max(heartbeat.rendezvous_count for heartbeat in waiting)
    late = {rank for rank in ranks if rank not in known or known[rank].rendezvous_count < meeting}
    missing = sorted(late | frozen)
    for_s = now - max(heartbeat.moved_at for heartbeat in inside)
    if not missing or for_s < timeout_s:
        return None
    described = "; ".join(_describe_absent(rank, known.get(rank), ended, now) for rank in missing[:4])
    return Hang(
        -meeting,
        tuple(missing),
        for_s,
        f"{len(waiting)} rank(s) have waited {for_s:.0f} s in init_process_group, jax.distributed.initialize or a"
        f" first all_reduce for {len(missing)} that did not come: {described}",
    )


def find_too_large_meeting(
    heartbeats: Sequence[RankHeartbeat], ranks: Collection[int], ended: Collection[int], now: float
) -> str:
    """A warning about a rank that waits for more processes than the job has ranks; empty if none does."""
    for each in heartbeats:
        long = now - each.moved_at >= WARN_AFTER_S and each.rank not in ended
        if each.in_rendezvous and each.meeting > len(ranks) and long:
            place = f" at {each.location}" if each.location else ""
            return (
                f"rank {each.rank} has waited {now - each.moved_at:.0f} s{place} for {each.meeting} processes, and the"
                f" job has {len(ranks)} rank(s). Set workers: {each.meeting}, or start the others in the program"
            )
    return ""


def time_allowed_s(
    hang: Hang,
    heartbeats: Sequence[RankHeartbeat],
    ended: Collection[int],
    now: float,
    *,
    named: bool,
    timeout_s: float,
) -> float:
    """Seconds that a hang may last: what the job says, otherwise as long as torch allows.

    It is unlimited while the loop of every missing rank moves: torch's own timeout ends that.
    """
    if named or hang.sequence < 0:
        return timeout_s
    missing = [each for each in heartbeats if each.rank in hang.missing and each.rank not in ended]
    if missing and all(now - each.looped_at < WARN_AFTER_S for each in missing):
        return math.inf
    return max([timeout_s, *(each.timeout_s for each in heartbeats)])


def rank_to_blame(hang: Hang, ended: Collection[int]) -> int:
    """The rank to name. A rank that has left will never come."""
    return next((rank for rank in hang.missing if rank in ended), hang.missing[0])


def timeout_for(hang: Hang, ended: Collection[int], timeout_s: float) -> float:
    """Seconds to wait: `WARN_AFTER_S` if a rank can no longer come to a rendezvous, in case its end has another
    cause.
    """
    hopeless = hang.sequence < 0 and any(rank in ended for rank in hang.missing)
    return min(WARN_AFTER_S, timeout_s) if hopeless else timeout_s


def _describe_absent(rank: int, heartbeat: RankHeartbeat | None, ended: Collection[int], now: float) -> str:
    if rank in ended:
        return f"rank {rank} has ended before it"
    if heartbeat is None:
        return f"rank {rank} has not reached it since it started"
    if now - heartbeat.seen_at > 10:
        return f"rank {rank} has not been heard of for {now - heartbeat.seen_at:.0f} s"
    return f"rank {rank} stands" + (f" at {heartbeat.location}" if heartbeat.location else " elsewhere")


def _describe(heartbeat: RankHeartbeat, ended: Collection[int], now: float) -> str:
    if heartbeat.rank in ended:
        return f"rank {heartbeat.rank} has ended after collective {heartbeat.sequence}"
    silent = now - heartbeat.seen_at
    if silent > 10:
        last = f"last at collective {heartbeat.sequence}" if heartbeat.sequence >= 0 else "not since it started"
        return f"rank {heartbeat.rank} has not been heard of for {silent:.0f} s ({last})"
    place = f" at {heartbeat.location}" if heartbeat.location else ""
    return f"rank {heartbeat.rank} stands{place} after collective {heartbeat.sequence}"
