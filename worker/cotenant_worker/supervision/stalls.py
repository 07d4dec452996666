"""Detects a group that stands still: no rank steps, reports or reduces any more. Pure.

`hangs` finds ranks that others wait for. If all ranks wait, for a lock, for data, or for a collective that is not
counted, or if one is in an endless loop, no rank is behind, but nothing moves. That may be right (an evaluation, a long
write), so it is only a warning unless the job limits it. It is never right if all ranks are in collectives of torch and
none of them ends: one reduces while another broadcasts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cotenant.contract import Contract
from cotenant_worker.supervision.hangs import WARN_AFTER_S, RankHeartbeat

FIRST_WARNING_S = 120.0
"""The first warning of a stall comes after this time, and another one each time its length has doubled."""
_SILENT_S = 10.0
_SAME_PLACE_HINT = (
    ". All are at the same place, so it is what came before: tensors of different sizes, or a second thread of a rank"
    " (a save in the background) in the same process group; give it one of its own, torch.distributed.new_group()"
)
_UNCOUNTED_HINT = ". Steps of a plain loop in JAX are not seen: if it made some, let it report() them"


def stall_timeout_s(contract: Contract) -> float | None:
    """Seconds after which a stall ends the ranks, `runtime.stallTimeout`; None means never."""
    chosen = contract.platform.get("stallTimeoutSeconds")
    return None if chosen is None else float(chosen)


@dataclass(frozen=True, slots=True)
class Stall:
    rank: int
    """The rank to name: the first that is silent, otherwise the first."""
    for_s: float
    all_heard_from: bool
    """True if every rank sends heartbeats that count something. A rank that does not may train unseen."""
    mismatched: bool
    """True if every rank is in a collective of torch and none of them ends, because they do not fit together."""
    message: str


def find_stall(
    heartbeats: Sequence[RankHeartbeat],
    live: Collection[int],
    *,
    started_at: float,
    now: float,
    timeout_s: float,
    mismatch_timeout_s: float = WARN_AFTER_S,
) -> Stall | None:
    """Find the stall of all ranks in `live`, which started at `started_at`.

    `timeout_s` is for a stall that may be right, `mismatch_timeout_s` for ranks that wait for each other in
    collectives.
    """
    live = sorted(live)
    known = {heartbeat.rank: heartbeat for heartbeat in heartbeats if heartbeat.rank in live}
    waiting = len(known) == len(live) and all(
        heartbeat.collective and now - heartbeat.seen_at <= _SILENT_S for heartbeat in known.values()
    )
    for_s = now - max([started_at, *(max(heartbeat.moved_at, heartbeat.looped_at) for heartbeat in known.values())])
    if not live or for_s < (min(mismatch_timeout_s, timeout_s) if waiting else timeout_s):
        return None
    silent = [rank for rank in live if rank not in known or known[rank].uncounted]
    places = "; ".join(_describe_rank(rank, known.get(rank), now) for rank in live[:4])
    more = f" and {len(live) - 4} more" if len(live) > 4 else ""
    standstill = _describe_mismatch(live, for_s) if waiting else _describe_standstill(live, known, for_s)
    unseen = _UNCOUNTED_HINT if any(heartbeat.uncounted for heartbeat in known.values()) else ""
    same = waiting and len(live) > 1 and len({(known[rank].collective, known[rank].location) for rank in live}) == 1
    hint = _SAME_PLACE_HINT if same else unseen
    return Stall((silent or live)[0], for_s, not silent, waiting, f"{standstill}: {places}{more}{hint}")


def _describe_mismatch(live: Sequence[int], for_s: float) -> str:
    return f"all {len(live)} ranks have waited {for_s:.0f} s in collectives that do not fit together"


def _describe_standstill(live: Sequence[int], known: Mapping[int, RankHeartbeat], for_s: float) -> str:
    ever = any(heartbeat.loop_count > 0 or heartbeat.sequence > 0 for heartbeat in known.values())
    since = f"for {for_s:.0f} s" if ever else f"since it started {for_s:.0f} s ago"
    if len(live) == 1:
        return f"the program has made no step, report or collective {since}"
    return f"no rank has made a step, a report or a collective {since}"


def _describe_rank(rank: int, heartbeat: RankHeartbeat | None, now: float) -> str:
    if heartbeat is None:
        return f"rank {rank} has not been heard of"
    if now - heartbeat.seen_at > _SILENT_S:
        return f"rank {rank} has not been heard of for {now - heartbeat.seen_at:.0f} s"
    does = f"is in {heartbeat.collective}" if heartbeat.collective else "stands"
    return f"rank {rank} {does}" + (f" at {heartbeat.location}" if heartbeat.location else " in a library")
