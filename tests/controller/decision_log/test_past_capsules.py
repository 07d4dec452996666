"""Which decisions are kept whole: a sample, in so many bytes, the oldest going first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.controller.decision_log.past_capsules import PAUSE_S, PastCapsules
from cotenant.core.model.plan import Evict, EvictionKind, Plan
from cotenant.core.policy import DEFAULT
from tests.support.clusters import make_job, make_node, make_queue, make_snapshot

SNAPSHOT = make_snapshot(nodes=[make_node("n1")], queues=[make_queue("red", guaranteed=2)], jobs=[make_job("a")])
QUIET = Plan()
EVICTS = Plan(actions=(Evict(job="red/a", kind=EvictionKind.MOVED, in_favour_of=None, message=""),))


def kept(capsules: PastCapsules, *plans: Plan, apart_s: float = PAUSE_S) -> list[str]:
    """Digests that are kept of decisions one after the other: their numbers."""
    for number, plan in enumerate(plans):
        capsules.take(str(number), replace(SNAPSHOT, now=1_000.0 + number * apart_s), plan)
    return [one.digest for one in reversed(capsules.newest_first())]


@pytest.mark.parametrize(
    ("every", "plans", "want"),
    [
        (0, (QUIET, EVICTS, QUIET, EVICTS), ["1", "3"]),
        (2, (QUIET, QUIET, QUIET, QUIET, QUIET), ["1", "3"]),
        (3, (QUIET, EVICTS, QUIET, QUIET), ["1", "2"]),
        (1, (QUIET, EVICTS), ["0", "1"]),
    ],
    ids=["evictions alone", "every second", "both", "all"],
)
def test_those_that_evict_and_every_so_many_th_are_kept(every: int, plans: tuple[Plan, ...], want: list[str]) -> None:
    assert kept(PastCapsules(DEFAULT, 1 << 20, every), *plans) == want


def test_one_is_kept_in_a_while_at_most() -> None:
    assert kept(PastCapsules(DEFAULT, 1 << 20, 1), *[EVICTS] * 5, apart_s=PAUSE_S / 2) == ["0", "2", "4"]


def test_the_oldest_go_where_there_are_too_many_bytes() -> None:
    one = PastCapsules(DEFAULT, 1 << 20, 1)
    kept(one, EVICTS)
    size = len(one.newest_first()[0].packed)
    assert kept(PastCapsules(DEFAULT, 2 * size + size // 2, 1), *[EVICTS] * 4) == ["2", "3"]
    assert kept(PastCapsules(DEFAULT, 0, 1), EVICTS) == []
    assert kept(PastCapsules(DEFAULT, 10, 1), EVICTS) == []


def on_volume(folder: Path, bytes_max: int = 1 << 20) -> PastCapsules:
    return PastCapsules(DEFAULT, bytes_max, 1).keep_in(str(folder), 16)


def test_the_next_leader_finds_on_the_volume_what_was_kept(tmp_path: Path) -> None:
    before = on_volume(tmp_path)
    kept(before, QUIET, EVICTS)
    after = on_volume(tmp_path)
    assert after.newest_first() == []
    after.load()
    assert after.newest_first() == before.newest_first()
    listed = [(one.digest, one.at, one.evictions) for one in after.newest_first()]
    assert listed == [("1", 1_010.0, 1), ("0", 1_000.0, 0)]


def test_a_leader_without_a_volume_begins_with_nothing(tmp_path: Path) -> None:
    kept(on_volume(tmp_path), QUIET)
    other = PastCapsules(DEFAULT, 1 << 20, 1).keep_in("", 16)
    other.load()
    assert other.newest_first() == []


def test_a_volume_that_fails_costs_what_is_not_written_and_is_counted(tmp_path: Path) -> None:
    in_the_way = tmp_path / "capsules"
    in_the_way.write_text("")
    one = on_volume(tmp_path)
    assert kept(one, QUIET, QUIET) == ["0", "1"]
    assert one.failed == 2


def test_capsules_have_their_part_of_the_volume_and_no_more_than_of_memory(tmp_path: Path) -> None:
    bounds = [PastCapsules(DEFAULT, mib << 20, 1).keep_in(str(tmp_path), 16).files for mib in (1, 64)]
    assert [files.bytes_max >> 20 for files in bounds if files is not None] == [1, 4]
