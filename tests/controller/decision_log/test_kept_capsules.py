"""Capsules on a volume: a file each, bounded together, whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.controller.decision_log.kept_capsules import CapsuleFiles, KeptCapsule


def capsule(number: int, size: int = 100) -> KeptCapsule:
    return KeptCapsule(digest=f"d{number}", at=1_000.25 + number, evictions=number % 2, packed=bytes(size))


def test_what_is_written_is_read_in_the_order_of_the_decisions(tmp_path: Path) -> None:
    files = CapsuleFiles(tmp_path / "new", 1_000)
    for number in (2, 10, 1):
        files.write(capsule(number))
    assert list(files.read()) == [capsule(1), capsule(2), capsule(10)]


@pytest.mark.parametrize(
    ("bytes_max", "left"),
    [(1_000, [0, 1, 2, 3]), (400, [0, 1, 2, 3]), (399, [1, 2, 3]), (100, [3]), (99, [])],
)
def test_the_oldest_go_where_there_are_too_many_bytes(tmp_path: Path, bytes_max: int, left: list[int]) -> None:
    files = CapsuleFiles(tmp_path, bytes_max)
    for number in range(4):
        files.write(capsule(number))
    assert list(files.read()) == [capsule(number) for number in left]


def test_a_smaller_bound_holds_from_the_next_look_on(tmp_path: Path) -> None:
    for number in range(4):
        CapsuleFiles(tmp_path, 1_000).write(capsule(number))
    assert list(CapsuleFiles(tmp_path, 250).read()) == [capsule(2), capsule(3)]
    assert len(list(tmp_path.iterdir())) == 2
    assert list(CapsuleFiles(tmp_path, 0).read()) == []


def test_of_one_that_was_written_halfway_nothing_stays_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    files = CapsuleFiles(tmp_path, 1_000)
    files.write(capsule(1))
    (tmp_path / "5-0-half.unfinished").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("of a person")
    assert list(files.read()) == [capsule(1)]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".capsule", ".txt"]


def test_nothing_is_there_before_anything_was_written(tmp_path: Path) -> None:
    assert list(CapsuleFiles(tmp_path / "none", 1_000).read()) == []
