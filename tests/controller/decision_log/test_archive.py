"""What is kept of the decision log: in memory so many bytes, on a volume in files that are rotated."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.controller.decision_log import archive
from cotenant.controller.decision_log.archive import Archive
from cotenant.controller.decision_log.rotated_files import PARTS, RotatedFiles
from cotenant.decision_log.cycles import CycleRecord
from cotenant.decision_log.runs import RunRecord


def run(number: int, name: str = "train", namespace: str = "red") -> RunRecord:
    return RunRecord(namespace=namespace, name=name, uid=f"u{number}", queue="q", outcome="Succeeded")


def test_questions_are_answered_newest_first_by_namespace_and_name() -> None:
    known = Archive()
    known.add([run(1), run(2, namespace="blue"), CycleRecord(at=1.0, digest="d"), run(3, "other"), run(4)])
    assert [one.uid for one in known.runs(most=3)] == ["u4", "u3", "u2"]
    assert [one.uid for one in known.runs("red", most=9)] == ["u4", "u3", "u1"]
    assert [one.uid for one in known.runs("red", "train", most=9)] == ["u4", "u1"]
    assert [one.at for one in known.cycles(9)] == [1.0]
    assert (known.knows("u1"), known.knows("u9")) == (True, False)


def test_memory_is_bounded_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "RUNS_BYTES", 4_000)
    known = Archive()
    for number in range(200):
        known.add([run(number)])
    kept = [one.uid for one in known.runs(most=999)]
    assert 1 < len(kept) < 20
    assert kept == [f"u{number}" for number in range(199, 199 - len(kept), -1)]


def test_another_replica_reads_what_one_has_written(tmp_path: Path) -> None:
    first, second = Archive(str(tmp_path / "log"), 16), Archive(str(tmp_path / "log"), 16)
    first.add([run(1), CycleRecord(at=1.0, digest="d")])
    second.load()
    second.add([run(2)])
    first.load()
    assert [one.uid for one in first.runs(most=9)] == ["u2", "u1"]
    assert first.knows("u2")
    assert [one.at for one in second.cycles(9)] == [1.0]


def test_half_a_line_costs_itself_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writing = Archive(str(tmp_path), 16)
    writing.add([run(1)])
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"kind":"Run","versi')
    writing.add([run(2)])
    reading = Archive(str(tmp_path), 16)
    reading.load()
    assert [one.uid for one in reading.runs(most=9)] == ["u2", "u1"]
    assert "1 lines that cannot be read" in caplog.text


def test_a_volume_that_fails_is_told_and_costs_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    known = Archive(str(tmp_path / "file"), 16)
    known.load()
    known.add([run(1)])
    assert [one.uid for one in known.runs(most=9)] == ["u1"]
    assert known.failed == 2
    assert "is not written" in caplog.text


def test_files_are_rotated_and_the_oldest_part_goes(tmp_path: Path) -> None:
    files = RotatedFiles(tmp_path, "x.jsonl", 400)
    for number in range(100):
        files.append([f"line {number:04d}"])
    kept = list(files.lines())
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert (len(sizes), max(sizes) <= 100, sum(sizes) <= 400) == (PARTS, True, True)
    assert kept == [f"line {number:04d}" for number in range(100 - len(kept), 100)]
    assert len(kept) > 25


def test_a_batch_larger_than_a_part_is_split_and_a_line_that_is_too_long_left_out(tmp_path: Path) -> None:
    files = RotatedFiles(tmp_path, "x.jsonl", 400)
    files.append([*(f"line {number:04d}" for number in range(20)), "y" * 500])
    assert list(files.lines()) == [f"line {number:04d}" for number in range(20)]
