"""A group that stands still as a whole: its warning, and its time. Times in seconds; ranks began at 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant_worker.supervision.hangs import RankHeartbeat
from cotenant_worker.supervision.stalls import find_stall


def beat(rank: int, *, moved: float = 0.0, turned: float = 0.0, seen: float = 199.5, waits: str = "") -> RankHeartbeat:
    return RankHeartbeat(
        rank, 0, 3, f"train.py:{rank} in main", seen, moved, loop_count=9, looped_at=turned, collective=waits
    )


@pytest.mark.parametrize(
    ("beats", "live", "want"),
    [
        pytest.param([beat(0), beat(1, turned=81)], {0, 1}, None, id="one has turned not long ago"),
        pytest.param([beat(0), beat(1, moved=81)], {0, 1}, None, id="one has come to a collective not long ago"),
        pytest.param([], set(), None, id="all have ended"),
        pytest.param(
            [beat(0, turned=79), beat(1, moved=60)],
            {0, 1},
            "no rank has made a step, a report or a collective for 121 s:"
            " rank 0 stands at train.py:0 in main; rank 1 stands at train.py:1 in main",
            id="nobody gets on",
        ),
        pytest.param(
            [beat(0), beat(1, turned=199)],
            {0},
            "the program has made no step, report or collective for 200 s: rank 0 stands at train.py:0 in main",
            id="the one that turned last has ended",
        ),
        pytest.param(
            [RankHeartbeat(0, 0, -1, "", 199.5)],
            {0},
            "the program has made no step, report or collective since it started 200 s ago: rank 0 stands in a library",
            id="it never began",
        ),
        pytest.param(
            [beat(0), beat(1, seen=150)],
            {0, 1, 2},
            "no rank has made a step, a report or a collective for 200 s: rank 0 stands at train.py:0 in main;"
            " rank 1 has not been heard of for 50 s; rank 2 has not been heard of",
            id="some are silent",
        ),
        pytest.param(
            [beat(rank) for rank in range(9)],
            set(range(9)),
            "no rank has made a step, a report or a collective for 200 s: "
            + "; ".join(f"rank {rank} stands at train.py:{rank} in main" for rank in range(4))
            + " and 5 more",
            id="many ranks",
        ),
        pytest.param(
            [beat(0, turned=160, waits="all_reduce"), beat(1, turned=159, waits="broadcast")],
            {0, 1},
            "all 2 ranks have waited 40 s in collectives that do not fit together:"
            " rank 0 is in all_reduce at train.py:0 in main; rank 1 is in broadcast at train.py:1 in main",
            id="all wait in collectives: said earlier",
        ),
        pytest.param(
            [replace(beat(rank, turned=160, waits="barrier"), location="train.py:37") for rank in (0, 1)],
            {0, 1},
            "all 2 ranks have waited 40 s in collectives that do not fit together:"
            " rank 0 is in barrier at train.py:37; rank 1 is in barrier at train.py:37. All are at the same place, so"
            " it is what came before: tensors of different sizes, or a second thread of a rank (a save in the"
            " background) in the same process group; give it one of its own, torch.distributed.new_group()",
            id="all wait at the same place",
        ),
        pytest.param(
            [beat(0, turned=160, waits="all_reduce"), beat(1, turned=159)], {0, 1}, None, id="one does not wait"
        ),
        pytest.param(
            [beat(0, turned=160, waits="all_reduce"), beat(1, turned=159, waits="barrier", seen=180)],
            {0, 1},
            None,
            id="one may have gone on",
        ),
    ],
)
def test_a_standstill_says_where_the_ranks_stand(beats: list[RankHeartbeat], live: set[int], want: str | None) -> None:
    found = find_stall(beats, live, started_at=0.0, now=200.0, timeout_s=120.0)
    assert (found.message if found else None) == want


def test_a_rank_that_does_nothing_that_is_counted_is_not_said_to_stand_still() -> None:
    beats = [RankHeartbeat(rank, 0, -1, f"train.py:{rank} in main", 199.5, uncounted=True) for rank in (0, 1)]
    found = find_stall(beats, {0, 1}, started_at=0.0, now=200.0, timeout_s=120.0)
    assert found is not None
    assert not found.all_heard_from  # nothing is said; the job's own stallTimeout may still end it
    assert found.message.endswith(
        "rank 0 stands at train.py:0 in main; rank 1 stands at train.py:1 in main."
        " Steps of a plain loop in JAX are not seen: if it made some, let it report() them"
    )
