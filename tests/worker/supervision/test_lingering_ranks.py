"""Ranks whose program is over and whose process is not: a failed one is ended, one that has returned is a warning."""

from __future__ import annotations

from cotenant_worker.supervision.lingering_ranks import (
    FAILED_S,
    HELD_S,
    KILL_S,
    RETURNED_S,
    Lingering,
    LingeringRanks,
)
from cotenant_worker.supervision.rank_error import RankError

ERROR = RankError("ValueError", "bad batch", "train.py:8", 1000.0, 7, 1.0)


class Seen:
    def __init__(self, *found: Lingering) -> None:
        self.ended: list[tuple[int, int, bool]] = []
        self.warnings: list[tuple[str, str]] = []
        self.ranks = LingeringRanks(
            lambda: found,
            lambda *order: self.ended.append(order),
            lambda key, text: self.warnings.append((key, text)),
        )

    def at(self, *times: float) -> Seen:
        for now in times:
            self.ranks.check(now)
        return self


def test_a_failed_program_is_asked_to_leave_and_then_killed() -> None:
    seen = Seen(Lingering(3, 0, ERROR))
    assert seen.at(50.0, 50.0 + FAILED_S - 1).ended == []
    assert seen.at(50.0 + FAILED_S, 51.0 + FAILED_S).ended == [(3, 1, False)]
    assert seen.at(50.0 + FAILED_S + KILL_S, 51.0 + FAILED_S + KILL_S).ended == [(3, 1, False), (3, 1, True)]
    assert seen.warnings == []


def test_a_program_that_has_returned_is_said_once_with_what_keeps_it_and_ends_hours_later_with_its_code() -> None:
    seen = Seen(Lingering(0, 0, threads=("uploader", "monitor"), code=3))
    assert seen.at(50.0, 50.0 + RETURNED_S - 1).warnings == []
    assert seen.at(50.0 + RETURNED_S, 9000.0).warnings == [
        (
            "lingers-0",
            "rank 0 returned 120 s ago and does not leave: uploader, monitor keeps it. It holds its GPUs until then, at"
            " most for 6 hours: let the program end or join what it starts, or make it a daemon thread",
        )
    ]
    assert seen.at(49.0 + HELD_S).ended == []
    assert seen.at(50.0 + HELD_S, 50.0 + HELD_S + KILL_S).ended == [(0, 3, False), (0, 3, True)]
