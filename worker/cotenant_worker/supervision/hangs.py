"""Detection of a collective, or of a rendezvous before the first one, that will not end, with the missing ranks. Pure.

Every rank counts the collectives that it has entered. In a healthy group the counts differ for moments only. When the
ranks that are ahead have stood still for long, those are missing that have entered fewer, and those that have entered
as many but whose heartbeats have been away for as long: frozen in the middle of it.

Before that, ranks wait for each other in `init_process_group`, or to form our own ring. While none has come there, all
of them may be loading data and no rank waits; once some have, those are missing that have not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from cotenant.contract import Contract

WARN_AFTER_S = 30.0
"""After this a hang becomes a warning of the job."""
_HANG_TIMEOUT_S = 600
"""As long as torch lets NCCL wait: what trains under torchrun, as with one rank that evaluates alone, trains here."""


def hang_timeout_s(contract: Contract) -> float:
    """Seconds after which a hang ends the ranks: `runtime.hangTimeout`."""
    return float(contract.platform.get("hangTimeoutSeconds", _HANG_TIMEOUT_S))


@dataclass(frozen=True, slots=True)
class RankHeartbeat:
    """A rank's state, sent by its side thread twice a second; a message of its own."""

    rank: int
    generation: int
    sequence: int
    """Collectives entered; -1 when the program uses none that we can count."""
    location: str = ""
    """The main thread's innermost line of user code."""
    seen_at: float = 0.0
    moved_at: float = 0.0
    rendezvous_count: int = 0
    """Arrivals at `init_process_group`."""
    in_rendezvous: bool = False
    """It waits there."""
    rendezvoused: bool = False
    """It has been there with all ranks of the job, so that each of them has begun to send heartbeats."""
    loop_count: int = 0
    """Turns of its loop: steps, reports, calls of `should_stop`."""
    looped_at: float = 0.0
    collective: str = ""
    """The collective of torch's that it is in, of whatever group."""
    uncounted: bool = False
    """It does nothing that is counted: its progress cannot be seen."""

    @property
    def progress(self) -> tuple[int, int, int, bool]:
        """The part that changes when the rank gets on."""
        return (self.generation, self.sequence, self.rendezvous_count, self.in_rendezvous)

    def following(self, before: RankHeartbeat | None, now: float) -> RankHeartbeat:
        """This heartbeat, seen `now`, with the times of what has not changed since `before`."""
        moved = before is None or before.progress != self.progress
        turned = before is None or before.loop_count != self.loop_count
        return replace(
            self,
            seen_at=now,
            moved_at=now if moved or before is None else before.moved_at,
            looped_at=now if turned or before is None else before.looped_at,
        )


@dataclass(frozen=True, slots=True)
class Hang:
    sequence: int
    """Of the collective; less than 0 for a rendezvous."""
    missing: tuple[int, ...]
    for_s: float
    message: str


def find_hang(
    beats: Sequence[RankHeartbeat], ranks: Collection[int], ended: Collection[int], now: float, timeout_s: float
) -> Hang | None:
    """Find the collective that hangs. `ranks` are all of this generation, `ended` those that have left."""
    beats = [*beats, *_silent_ranks(beats, ranks, ended)]
    # One that fell silent before it counted its first stands at none, while others have gone on to theirs.
    counted = [beat for beat in beats if beat.sequence >= 0 or now - beat.seen_at >= timeout_s]
    waiting_at = max((beat.sequence for beat in counted), default=0)
    frozen = {beat.rank for beat in counted if beat.rank not in ended and now - beat.seen_at >= timeout_s}
    behind = [beat for beat in counted if beat.sequence < waiting_at or beat.rank in frozen]
    ahead = [beat for beat in counted if beat not in behind and beat.rank not in ended]
    if not ahead or not behind:
        return None
    for_s = now - max(beat.moved_at for beat in (*ahead, *behind))
    if for_s < timeout_s:
        return None
    missing = sorted(behind, key=lambda beat: (beat.sequence, beat.rank))
    words = "; ".join(_describe(beat, ended, now) for beat in missing[:4])
    return Hang(
        waiting_at,
        tuple(beat.rank for beat in missing),
        for_s,
        f"{len(ahead)} rank(s) have waited {for_s:.0f} s in collective {waiting_at} for {len(missing)} that did not"
        f" come: {words}",
    )


def _silent_ranks(
    beats: Sequence[RankHeartbeat], ranks: Collection[int], ended: Collection[int]
) -> list[RankHeartbeat]:
    """Ranks that froze between the rendezvous and their first heartbeat: others prove that it took place."""
    if not any(beat.rendezvoused for beat in beats):
        return []
    silent = set(ranks) - {beat.rank for beat in beats} - set(ended)
    since = min(beat.moved_at for beat in beats)
    return [RankHeartbeat(rank, beats[0].generation, -1, seen_at=since, moved_at=since) for rank in sorted(silent)]


def find_missing_rendezvous(
    beats: Sequence[RankHeartbeat], ranks: Collection[int], ended: Collection[int], now: float, timeout_s: float
) -> Hang | None:
    """Find the rendezvous that hangs. `ranks` are all of this generation."""
    known = {beat.rank: beat for beat in beats}
    inside = [beat for beat in beats if beat.in_rendezvous and beat.rank not in ended]
    frozen = {beat.rank for beat in inside if now - beat.seen_at >= timeout_s}
    waiting = [beat for beat in inside if beat.rank not in frozen]
    if not waiting:
        return None
    meeting = max(beat.rendezvous_count for beat in waiting)
    late = {rank for rank in ranks if rank not in known or known[rank].rendezvous_count < meeting}
    missing = sorted(late | frozen)
    for_s = now - max(beat.moved_at for beat in inside)
    if not missing or for_s < timeout_s:
        return None
    words = "; ".join(_describe_absent(rank, known.get(rank), ended, now) for rank in missing[:4])
    return Hang(
        -meeting,
        tuple(missing),
        for_s,
        f"{len(waiting)} rank(s) have waited {for_s:.0f} s in init_process_group, jax.distributed.initialize or a"
        f" first all_reduce for {len(missing)} that did not come: {words}",
    )


def rank_to_blame(hang: Hang, ended: Collection[int]) -> int:
    """The rank that is named: one that has left will never come."""
    return next((rank for rank in hang.missing if rank in ended), hang.missing[0])


def timeout_for(hang: Hang, ended: Collection[int], timeout_s: float) -> float:
    """Seconds to wait: `WARN_AFTER_S` where a rank can no longer come to a rendezvous, in case its end means more."""
    hopeless = hang.sequence < 0 and any(rank in ended for rank in hang.missing)
    return min(WARN_AFTER_S, timeout_s) if hopeless else timeout_s


def _describe_absent(rank: int, beat: RankHeartbeat | None, ended: Collection[int], now: float) -> str:
    if rank in ended:
        return f"rank {rank} has ended before it"
    if beat is None:
        return f"rank {rank} has not reached it since it started"
    if now - beat.seen_at > 10:
        return f"rank {rank} has not been heard of for {now - beat.seen_at:.0f} s"
    return f"rank {rank} stands" + (f" at {beat.location}" if beat.location else " elsewhere")


def _describe(beat: RankHeartbeat, ended: Collection[int], now: float) -> str:
    if beat.rank in ended:
        return f"rank {beat.rank} has ended after collective {beat.sequence}"
    silent = now - beat.seen_at
    if silent > 10:
        last = f"last at collective {beat.sequence}" if beat.sequence >= 0 else "not since it started"
        return f"rank {beat.rank} has not been heard of for {silent:.0f} s ({last})"
    place = f" at {beat.location}" if beat.location else ""
    return f"rank {beat.rank} stands{place} after collective {beat.sequence}"
