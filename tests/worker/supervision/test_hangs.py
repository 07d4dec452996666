"""Collectives and rendezvous that hang: the missing ranks are named, with where they stand. Times in seconds."""

import math
from dataclasses import replace

import pytest

from cotenant_worker.supervision.hangs import (
    RankHeartbeat,
    find_hang,
    find_missing_rendezvous,
    rank_to_blame,
    time_allowed_s,
    timeout_for,
)


def beat(rank: int, sequence: int, *, moved: float = 0.0, seen: float = 100.0, where: str = "") -> RankHeartbeat:
    return RankHeartbeat(rank, 0, sequence, where, seen, moved)


def inside(rank: int, sequence: int, collective: str) -> RankHeartbeat:
    return replace(beat(rank, sequence), collective=collective)


@pytest.mark.parametrize(
    ("beats", "left", "want"),
    [
        pytest.param([beat(0, 5), beat(1, 5)], (), None, id="all in the same collective: nobody is missing"),
        pytest.param([beat(0, 5, moved=90), beat(1, 4)], (), None, id="not long enough"),
        pytest.param([beat(0, -1), beat(1, -1)], (), None, id="collectives that cannot be counted"),
        pytest.param(
            [beat(0, 5), beat(1, 4, where="train.py:12 in load")],
            (),
            "1 rank(s) have waited 100 s in collective 5 for 1 that did not come:"
            " rank 1 stands at train.py:12 in load after collective 4",
            id="who did not come, and where it stands",
        ),
        pytest.param(
            [beat(0, 5), beat(1, 4, seen=40)],
            (),
            "1 rank(s) have waited 100 s in collective 5 for 1 that did not come:"
            " rank 1 has not been heard of for 60 s (last at collective 4)",
            id="who is frozen",
        ),
        pytest.param(
            [beat(0, 5), beat(1, 5, seen=40)],
            (),
            "1 rank(s) have waited 100 s in collective 5 for 1 that did not come:"
            " rank 1 has not been heard of for 60 s (last at collective 5)",
            id="who is frozen inside the collective",
        ),
        pytest.param(
            [beat(0, 2), beat(1, -1, seen=40)],
            (),
            "1 rank(s) have waited 100 s in collective 2 for 1 that did not come:"
            " rank 1 has not been heard of for 60 s (not since it started)",
            id="who froze before it counted its first",
        ),
        pytest.param([beat(0, 2), beat(1, -1)], (), None, id="one that counts none and lives is not waited for"),
        pytest.param([beat(0, 5, seen=40), beat(1, 5, seen=40)], (), None, id="all silent: it is not the ranks"),
        pytest.param(
            [inside(0, 5, "all_reduce"), beat(1, 4)],
            (1,),
            "1 rank(s) have waited 100 s in collective 5 for 1 that did not come: rank 1 has ended after collective 4",
            id="who has left",
        ),
        pytest.param([beat(0, 5), beat(1, 4)], (0,), None, id="the ones ahead have left: nobody waits"),
        pytest.param([beat(0, 5), beat(1, 4)], (1,), None, id="one exports alone what all have trained"),
        pytest.param(
            [replace(beat(0, 5), looped_at=99.0), beat(1, 4)], (), None, id="the one ahead turns its loop elsewhere"
        ),
        pytest.param([inside(0, 5, "recv"), beat(1, 4)], (), None, id="traffic between two ranks is no collective"),
        pytest.param(
            [replace(beat(0, 1), rendezvoused=True)],
            (),
            "1 rank(s) have waited 100 s in collective 1 for 1 that did not come:"
            " rank 1 has not been heard of for 100 s (not since it started)",
            id="who froze before its first beat",
        ),
        pytest.param([beat(0, 1)], (), None, id="one that says no beats, in a job whose ranks never met"),
        pytest.param([replace(beat(0, 1), rendezvoused=True)], (1,), None, id="one that left before its first beat"),
    ],
)
def test_a_hanging_collective_names_who_is_missing(
    beats: list[RankHeartbeat], left: tuple[int, ...], want: str | None
) -> None:
    found = find_hang(beats, range(2), left, 100.0, 30.0)
    assert (found.message if found else None) == want


def meeting(
    rank: int, entered: int = 1, *, inside: bool = True, seen: float = 99.0, moved: float = 60.0
) -> RankHeartbeat:
    return RankHeartbeat(rank, 0, -1 if inside else 7, "train.py:9 in main", seen, moved, entered, inside)


WAITED = (
    "rank(s) have waited 40 s in init_process_group, jax.distributed.initialize or a first all_reduce for 1 that did"
    " not come"
)


@pytest.mark.parametrize(
    ("beats", "left", "want"),
    [
        pytest.param([], (), None, id="all are loading: nobody waits"),
        pytest.param([meeting(0), meeting(1, moved=80)], (), None, id="the last came not long ago"),
        pytest.param([meeting(0), meeting(1), meeting(2)], (), None, id="all are there: torch is at work"),
        pytest.param([meeting(rank, inside=False) for rank in range(3)], (), None, id="all have been there"),
        pytest.param(
            [meeting(0), meeting(2)],
            (),
            f"2 {WAITED}: rank 1 has not reached it since it started",
            id="one never came",
        ),
        pytest.param(
            [meeting(0), meeting(2)], (1,), f"2 {WAITED}: rank 1 has ended before it", id="one ended with 0 before"
        ),
        pytest.param(
            [meeting(0), meeting(1), meeting(2, seen=61.0)],
            (),
            f"2 {WAITED}: rank 2 has not been heard of for 39 s",
            id="one froze inside",
        ),
        pytest.param(
            [meeting(0, 2), meeting(1, 1, inside=False), meeting(2, 2)],
            (),
            f"2 {WAITED}: rank 1 stands at train.py:9 in main",
            id="one did not come to the second meeting",
        ),
    ],
)
def test_a_meeting_before_the_first_collective_names_who_is_missing(
    beats: list[RankHeartbeat], left: tuple[int, ...], want: str | None
) -> None:
    found = find_missing_rendezvous(beats, range(3), left, 100.0, 30.0)
    assert (found.message if found else None) == want


def test_a_rank_that_has_left_is_named_and_not_waited_for_as_long_as_one_that_may_come() -> None:
    absent = find_missing_rendezvous([meeting(0)], range(3), (2,), 100.0, 30.0)
    assert absent
    assert (absent.missing, rank_to_blame(absent, (2,)), timeout_for(absent, (2,), 600.0)) == ((1, 2), 2, 30.0)
    assert (rank_to_blame(absent, ()), timeout_for(absent, (), 600.0)) == (1, 600.0)
    behind = find_hang([inside(0, 5, "barrier"), beat(1, 4)], range(2), (1,), 100.0, 30.0)
    assert behind
    assert timeout_for(behind, (1,), 600.0) == 600.0, "rank 0 may be alone in a group of its own"


@pytest.mark.parametrize(
    ("named", "torch_s", "turns", "want"),
    [
        pytest.param(False, 0.0, False, 600.0, id="nothing is known: our own bound"),
        pytest.param(False, 7200.0, False, 7200.0, id="the program gives it two hours"),
        pytest.param(False, 30.0, False, 600.0, id="torch ends it sooner by itself"),
        pytest.param(False, 7200.0, True, math.inf, id="the one that is missing does something"),
        pytest.param(True, 7200.0, True, 600.0, id="the job says how long"),
    ],
)
def test_a_hang_may_last_as_long_as_the_program_allows_unless_the_job_says(
    named: bool, torch_s: float, turns: bool, want: float
) -> None:
    beats = [
        replace(inside(0, 6, "barrier"), timeout_s=torch_s),
        replace(beat(1, 5), looped_at=99.0 if turns else 0.0),
    ]
    hang = find_hang(beats, range(2), (), 100.0, 30.0)
    assert hang
    assert time_allowed_s(hang, beats, (), 100.0, named=named, timeout_s=600.0) == want
