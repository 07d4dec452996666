"""Finds a collective, or a meeting before the first one, that will not end; names who did not come to it. Pure.

Every rank counts the collectives that it has entered. In a healthy world the counts differ for moments only. When the
ranks that are ahead have stood still for long, those are missing who have entered fewer, and those who have entered as
many but have not been heard of for as long: frozen in the middle of it.

Before that, ranks wait for each other in `init_process_group`, or to form our own ring. While none has come there, all
of them may be loading data and nobody waits; once some have, those are missing who have not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cotenant.contract import Contract

TOLD_S = 30.0
"""After this a hang is told as a warning."""
_PATIENCE_S = 600
"""As long as torch lets NCCL wait: what trains under torchrun, one rank evaluating alone say, trains here."""


def patience_of(contract: Contract) -> float:
    """Seconds after which a hang ends the ranks: `runtime.hangTimeout`."""
    return float(contract.platform.get("hangTimeoutSeconds", _PATIENCE_S))


@dataclass(frozen=True, slots=True)
class Beat:
    """What a rank's side thread says about once a second."""

    rank: int
    generation: int
    sequence: int
    """Collectives entered; -1 when the program uses none that we can count."""
    where: str = ""
    """The main thread's innermost line of user code."""
    seen_at: float = 0.0
    moved_at: float = 0.0
    entered: int = 0
    """How often it has come to `init_process_group`."""
    inside: bool = False
    """It waits there."""
    met: bool = False
    """It has been there with all ranks of the job, so that each of them has begun to say beats."""
    turns: int = 0
    """How often its loop has come round: steps, reports, calls of `should_stop`."""
    turned_at: float = 0.0
    waits: str = ""
    """The collective of torch's that it is in, of whatever group."""
    mute: bool = False
    """It does nothing that is counted: whether it gets on cannot be told."""

    @property
    def progress(self) -> tuple[int, int, int, bool]:
        """What changes when the rank gets on."""
        return (self.generation, self.sequence, self.entered, self.inside)

    def after(self, before: Beat | None, now: float) -> Beat:
        """This one, seen now, with the times of what has not changed since `before`."""
        moved = before is None or before.progress != self.progress
        turned = before is None or before.turns != self.turns
        return replace(
            self,
            seen_at=now,
            moved_at=now if moved or before is None else before.moved_at,
            turned_at=now if turned or before is None else before.turned_at,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Beat:
        return cls(**raw)


@dataclass(frozen=True, slots=True)
class Hang:
    sequence: int
    """Of the collective; less than 0 for a meeting."""
    missing: tuple[int, ...]
    for_s: float
    message: str


def find_hang(
    beats: Sequence[Beat], ranks: Collection[int], ended: Collection[int], now: float, patience_s: float
) -> Hang | None:
    """The collective that hangs, or None. `ranks` are all of this start, `ended` those that have left."""
    beats = [*beats, *_unheard(beats, ranks, ended)]
    # One that fell silent before it counted its first stands at none, while others have gone on to theirs.
    counted = [beat for beat in beats if beat.sequence >= 0 or now - beat.seen_at >= patience_s]
    waiting_at = max((beat.sequence for beat in counted), default=0)
    frozen = {beat.rank for beat in counted if beat.rank not in ended and now - beat.seen_at >= patience_s}
    behind = [beat for beat in counted if beat.sequence < waiting_at or beat.rank in frozen]
    ahead = [beat for beat in counted if beat not in behind and beat.rank not in ended]
    if not ahead or not behind:
        return None
    for_s = now - max(beat.moved_at for beat in (*ahead, *behind))
    if for_s < patience_s:
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


def _unheard(beats: Sequence[Beat], ranks: Collection[int], ended: Collection[int]) -> list[Beat]:
    """Ranks that froze between the meeting and their first beat, which others prove to have taken place."""
    if not any(beat.met for beat in beats):
        return []
    silent = set(ranks) - {beat.rank for beat in beats} - set(ended)
    since = min(beat.moved_at for beat in beats)
    return [Beat(rank, beats[0].generation, -1, seen_at=since, moved_at=since) for rank in sorted(silent)]


def find_absent(
    beats: Sequence[Beat], ranks: Collection[int], ended: Collection[int], now: float, patience_s: float
) -> Hang | None:
    """The ranks that others wait for to meet them, or None. `ranks` are all of this start."""
    known = {beat.rank: beat for beat in beats}
    inside = [beat for beat in beats if beat.inside and beat.rank not in ended]
    frozen = {beat.rank for beat in inside if now - beat.seen_at >= patience_s}
    waiting = [beat for beat in inside if beat.rank not in frozen]
    if not waiting:
        return None
    meeting = max(beat.entered for beat in waiting)
    late = {rank for rank in ranks if rank not in known or known[rank].entered < meeting}
    missing = sorted(late | frozen)
    for_s = now - max(beat.moved_at for beat in inside)
    if not missing or for_s < patience_s:
        return None
    words = "; ".join(_describe_absent(rank, known.get(rank), ended, now) for rank in missing[:4])
    return Hang(
        -meeting,
        tuple(missing),
        for_s,
        f"{len(waiting)} rank(s) have waited {for_s:.0f} s in init_process_group, jax.distributed.initialize or a"
        f" first all_reduce for {len(missing)} that did not come: {words}",
    )


def culprit(hang: Hang, ended: Collection[int]) -> int:
    """Who is named: one that has left will never come."""
    return next((rank for rank in hang.missing if rank in ended), hang.missing[0])


def patience_with(hang: Hang, ended: Collection[int], patience_s: float) -> float:
    """A meeting that a rank has left for good is not waited for: `TOLD_S` only, in case its end means more."""
    hopeless = hang.sequence < 0 and any(rank in ended for rank in hang.missing)
    return min(TOLD_S, patience_s) if hopeless else patience_s


def _describe_absent(rank: int, beat: Beat | None, ended: Collection[int], now: float) -> str:
    if rank in ended:
        return f"rank {rank} has ended before it"
    if beat is None:
        return f"rank {rank} has not reached it since it started"
    if now - beat.seen_at > 10:
        return f"rank {rank} has not been heard of for {now - beat.seen_at:.0f} s"
    return f"rank {rank} stands" + (f" at {beat.where}" if beat.where else " elsewhere")


def _describe(beat: Beat, ended: Collection[int], now: float) -> str:
    if beat.rank in ended:
        return f"rank {beat.rank} has ended after collective {beat.sequence}"
    silent = now - beat.seen_at
    if silent > 10:
        last = f"last at collective {beat.sequence}" if beat.sequence >= 0 else "not since it started"
        return f"rank {beat.rank} has not been heard of for {silent:.0f} s ({last})"
    place = f" at {beat.where}" if beat.where else ""
    return f"rank {beat.rank} stands{place} after collective {beat.sequence}"
