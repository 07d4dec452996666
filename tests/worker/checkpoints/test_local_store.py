"""A checkpoint is whole or it is not there."""

import errno
import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from cotenant.contract import CheckpointSpec
from cotenant_worker.checkpoints import local_store


def write(text: str):  # type: ignore[no-untyped-def]
    def fill(directory: Path) -> None:
        (directory / "model.bin").write_text(text)
        (directory / "shards").mkdir()
        (directory / "shards" / "0").write_text(text * 2)

    return fill


def test_what_was_saved_is_found_with_what_was_noted(tmp_path: Path) -> None:
    local_store.save(tmp_path, 40, write("forty"), meta={"world_size": 2})
    found = local_store.latest(tmp_path)
    assert found == local_store.Checkpoint(40, tmp_path / "step-000000000040", {"world_size": 2})
    assert (found.path / "shards" / "0").read_text() == "fortyforty"


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        local_store.save(tmp_path, step, write(str(step)), keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000000003", "step-000000000004"]


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half").write_text("half")
        raise OSError("disk full")

    local_store.save(tmp_path, 1, write("one"))
    with pytest.raises(OSError, match="disk full"):
        local_store.save(tmp_path, 2, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000001"]


@pytest.fixture(params=[errno.ENOSYS, errno.EMFILE, errno.EPERM], ids=["Mountpoint for S3", "gcsfuse", "another"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which no folder can be renamed, and none be written back."""
    sync, code = os.fsync, request.param

    def refuse(path: Path, target: Path) -> Path:
        raise OSError(code, os.strerror(code), str(path), None, str(target))

    def sync_files(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        sync(descriptor)

    monkeypatch.setattr(Path, "rename", refuse)
    monkeypatch.setattr(os, "fsync", sync_files)
    return tmp_path


def test_a_mounted_bucket_keeps_whole_checkpoints_too(bucket: Path) -> None:
    for step in (1, 2, 3):
        local_store.save(bucket, step, write(str(step)), keep=2)
    assert sorted(path.name for path in bucket.iterdir()) == ["step-000000000002", "step-000000000003"]
    assert [each.step for each in local_store.whole_checkpoints(bucket)] == [3, 2]
    local_store.save(bucket, 3, write("again"))
    assert (bucket / "step-000000000003" / "model.bin").read_text() == "3"


def test_in_a_mounted_bucket_half_a_checkpoint_is_none(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_store.save(bucket, 1, write("one"))
    copy, left = shutil.copyfile, [1]

    def killed_after_two(source: Path, target: Path) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        copy(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", killed_after_two)
        with pytest.raises(KeyboardInterrupt):
            local_store.save(bucket, 2, write("two"))
    assert (bucket / "step-000000000002" / "manifest.json").is_file()
    assert [each.step for each in local_store.whole_checkpoints(bucket, verify=False)] == [1]
    local_store.save(bucket, 2, write("two"))
    assert [each.step for each in local_store.whole_checkpoints(bucket)] == [2, 1]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: (path / "model.bin").write_text("other"), id="a byte changed"),
        pytest.param(lambda path: (path / "model.bin").write_text("t"), id="a file cut short"),
        pytest.param(lambda path: (path / "shards" / "0").unlink(), id="a file missing"),
        pytest.param(lambda path: (path / "manifest.json").write_text("{"), id="the manifest torn"),
        pytest.param(lambda path: (path / "manifest.json").write_text("[]"), id="the manifest nonsense"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    local_store.save(tmp_path, 1, write("three"))
    local_store.save(tmp_path, 2, write("three"))
    damage(tmp_path / "step-000000000002")
    found = local_store.latest(tmp_path)
    assert found is not None
    assert found.step == 1


def test_without_reading_every_byte_sizes_still_tell(tmp_path: Path) -> None:
    local_store.save(tmp_path, 1, write("one"))
    local_store.save(tmp_path, 2, write("two"))
    (tmp_path / "step-000000000002" / "model.bin").write_text("tw")
    found = local_store.newest(CheckpointSpec(str(tmp_path)))
    assert found is not None
    assert found.step == 1


def test_an_interrupted_writer_is_not_seen(tmp_path: Path) -> None:
    local_store.save(tmp_path, 1, write("one"))
    aside = tmp_path / "step-000000000002.tmp-abc"
    aside.mkdir()
    (aside / "model.bin").write_text("half")
    found = local_store.latest(tmp_path)
    assert found is not None
    assert found.step == 1


def test_what_an_interrupted_writer_left_is_removed_later(tmp_path: Path) -> None:
    aside = tmp_path / "step-000000000001.tmp-abc"
    aside.mkdir()
    os.utime(aside, (0, 0))
    local_store.save(tmp_path, 2, write("two"))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000002"]


def test_a_program_that_writes_its_own_format_is_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "step-000000000007").mkdir()
    (tmp_path / "step-000000000009").write_text("a file is a checkpoint too")
    assert [found.step for found in local_store.whole_checkpoints(tmp_path)] == [9, 7]


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    local_store.save(tmp_path, 5, write("old"))
    local_store.save(tmp_path, 5, write("new"))
    found = local_store.latest(tmp_path)
    assert found is not None
    assert (found.path / "model.bin").read_text() == "new"
    assert json.loads((found.path / "manifest.json").read_text())["step"] == 5


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert local_store.latest(tmp_path / "absent") is None
    assert local_store.newest(None) is None
