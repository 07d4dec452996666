"""Data of a job is in its folders, whole, or there is a reason that its tenant can act on."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from obstore.exceptions import GenericError

from cotenant.contract import DataSource
from cotenant_worker.object_stores import object_store, staging
from cotenant_worker.object_stores.staged_folder import JOURNAL, StagedFolder
from cotenant_worker.object_stores.staging_reports import StagingProgress, StagingReport
from tests.worker.object_stores import s3_server
from tests.worker.object_stores.test_staging import files, refused, staged

pytestmark = pytest.mark.s3


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the objects that are fetched from now on."""
    fetched: list[str] = []
    read = object_store.ObjectStore.read

    def recorded(self: Any, path: str, etag: str) -> Iterator[Any]:
        fetched.append(path)
        return read(self, path, etag)

    monkeypatch.setattr(object_store.ObjectStore, "read", recorded)
    return fetched


def test_all_below_an_address_lies_in_the_folder_and_bytes_are_told(bucket: str, tmp_path: Path) -> None:
    contents = {"a.bin": os.urandom(3_000_000), "b/c.txt": b"deep", "empty": b""}
    for key, content in {**contents, "b/": b""}.items():
        s3_server.put(bucket, f"set/{key}", content)
    s3_server.put(bucket, "settled/x", b"of another prefix")
    told = staged(DataSource("s3://runs/set", str(tmp_path / "data")))
    assert files(tmp_path / "data") == contents
    assert told[0] == StagingProgress(0, 0, "listing")
    assert told[-1] == StagingProgress(3_000_004, 3_000_004)
    counts = [one.fetched_bytes for one in told if isinstance(one, StagingProgress)]
    assert counts == sorted(counts)


def test_an_address_may_be_one_object_and_several_have_a_folder_each(bucket: str, tmp_path: Path) -> None:
    s3_server.put(bucket, "deep/one.tar", b"tar")
    s3_server.put(bucket, "all/two", b"2")
    one, two = tmp_path / "one", tmp_path / "two"
    staged(DataSource("s3://runs/deep/one.tar", str(one)), DataSource("s3://runs/all/", str(two)))
    assert (files(one), files(two)) == ({"one.tar": b"tar"}, {"two": b"2"})


def test_what_is_there_is_not_fetched_again_and_what_changed_is(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, folder = DataSource("s3://runs/set", str(tmp_path)), tmp_path
    for key in ("same", "changed", "damaged", "removed"):
        s3_server.put(bucket, f"set/{key}", b"before")
    staged(source)
    s3_server.put(bucket, "set/changed", b"after!")
    (folder / "damaged").write_bytes(b"bef")
    (folder / "removed").unlink()
    (folder / ".cotenant-part-left").write_bytes(b"of a pod that was killed")
    fetched = reads(monkeypatch)
    told = staged(source)
    assert sorted(fetched) == ["changed", "damaged", "removed"]
    assert files(folder) == {"same": b"before", "changed": b"after!", "damaged": b"before", "removed": b"before"}
    assert told[-1] == StagingProgress(24, 24)


def test_a_journal_that_was_cut_off_and_another_address_in_the_same_folder_are_fetched_anew(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for prefix in ("one", "two"):
        s3_server.put(bucket, f"{prefix}/file", b"equal")
    staged(DataSource("s3://runs/one", str(tmp_path)))
    fetched = reads(monkeypatch)
    staged(DataSource("s3://runs/two", str(tmp_path)))
    staged(DataSource("s3://runs/one", str(tmp_path)))
    assert fetched == ["file", "file"]
    journal = tmp_path / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-9])
    staged(DataSource("s3://runs/one", str(tmp_path)))
    assert fetched == ["file", "file", "file"]


@pytest.mark.parametrize(
    "key", ["../outside", "a/../../outside", "/outside", "a//b", ".cotenant-staged.jsonl", "a%09b", "x" * 256]
)
def test_a_key_that_is_no_path_below_the_folder_is_refused(bucket: str, tmp_path: Path, key: str) -> None:
    s3_server.put(bucket, f"set/{key.replace('..', '%2e%2e')}", b"evil")
    reason, _, retriable = refused(DataSource("s3://runs/set", str(tmp_path / "data")))
    assert (reason, retriable) == ("DataNameRefused", False)
    assert {path.name for path in tmp_path.rglob("*")} == set()


def test_an_object_that_is_a_file_and_a_folder_is_refused(bucket: str, tmp_path: Path) -> None:
    s3_server.put(bucket, "set/a", b"file")
    s3_server.put(bucket, "set/a/b", b"below it")
    said = refused(DataSource("s3://runs/set", str(tmp_path)))
    assert said == ("DataNameRefused", "the object 'a' is a file and a folder at once", False)


@pytest.mark.parametrize("address", ["s3://runs/none", "s3://runs/none/", "s3://no-bucket/x", "s3://runs"])
def test_an_address_with_nothing_there_is_named(bucket: str, tmp_path: Path, address: str) -> None:
    said = refused(DataSource(address, str(tmp_path)))
    assert said == ("DataNotFound", f"there is nothing at {address}; correct spec.data[].from", False)


def test_a_denied_address_is_not_tried_again(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_server.put(bucket, "one", b"1")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket)
    monkeypatch.setattr(object_store.ObjectStore, "objects", lambda _: iter(()))  # listing is allowed to all there
    reason, message, retriable = refused(DataSource("s3://runs/one", str(tmp_path)))
    assert (reason, retriable) == ("DataDenied", False)
    assert message.startswith("the store refuses to give s3://runs/one: ")
    assert "check that the keys in spec.runtime.env may list and read it" in message


def test_more_than_the_limit_is_refused_before_the_first_byte(bucket: str, tmp_path: Path) -> None:
    s3_server.put(bucket, "set/a", b"12345")
    staged(DataSource("s3://runs/set", str(tmp_path / "fits"), 5))
    said = refused(DataSource("s3://runs/set", str(tmp_path / "data"), 4))
    assert said == (
        "DataTooLarge",
        "s3://runs/set has 5 bytes, and its sizeLimit is 4; raise spec.data[].sizeLimit, or name less of it",
        False,
    )
    assert not (tmp_path / "data").exists()


def test_a_volume_without_room_is_refused_before_the_first_byte(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.put(bucket, "set/a", b"12345")
    monkeypatch.setattr(StagedFolder, "free_bytes", lambda _: 4)
    assert refused(DataSource("s3://runs/set", str(tmp_path)))[0] == "DataDiskFull"
    assert files(tmp_path) == {}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "DataDiskFull"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "DataDiskFull"),
        (PermissionError(errno.EACCES, "Permission denied"), "DataNotWritable"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), "DataNotWritable"),
    ],
)
def test_an_error_of_the_disk_on_the_way_leaves_nothing_that_looks_whole(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str
) -> None:
    s3_server.put(bucket, "set/a", b"12345")

    def fails(_: int) -> None:
        raise error

    monkeypatch.setattr("cotenant_worker.object_stores.staged_folder.os.fsync", fails)
    said, message, retriable = refused(DataSource("s3://runs/set", str(tmp_path)))
    assert (said, retriable, str(tmp_path) in message) == (reason, False, True)
    assert files(tmp_path) == {}


def test_a_store_that_breaks_off_is_asked_again_and_bytes_are_counted_once(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.put(bucket, "set/a", b"12345")
    read, tries = object_store.ObjectStore.read, iter(range(9))

    def breaks(self: Any, path: str, etag: str) -> Iterator[Any]:
        yield from read(self, path, etag)
        if next(tries) < 2:
            raise GenericError("Generic S3 error: HTTP error: error decoding response body")

    monkeypatch.setattr(object_store.ObjectStore, "read", breaks)
    told = staged(DataSource("s3://runs/set", str(tmp_path)))
    assert files(tmp_path) == {"a": b"12345"}
    assert told[-1] == StagingProgress(5, 5)
    assert StagingProgress(0, 5, "the store did not answer for a; trying again") in told


def test_an_object_that_changes_meanwhile_is_never_half_of_each(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.put(bucket, "set/a", b"before")
    listing = staging.list_source(DataSource("s3://runs/set", str(tmp_path)))
    s3_server.put(bucket, "set/a", b"after!")
    monkeypatch.setattr(staging, "list_source", lambda *_, **__: listing)
    reason, message, retriable = refused(listing.source)
    assert (reason, message, retriable) == ("DataChanged", "s3://runs/set (a) changed while it was fetched", True)
    assert files(tmp_path) == {}


def test_another_pod_that_fetches_into_the_volume_is_waited_for(bucket: str, tmp_path: Path) -> None:
    s3_server.put(bucket, "set/a", b"12345")
    other = (tmp_path / ".cotenant-lock").open("ab")
    fcntl.flock(other, fcntl.LOCK_EX)
    told: list[StagingReport] = []

    def report(one: StagingReport) -> None:
        told.append(one)
        if isinstance(one, StagingProgress) and one.note.startswith("another pod"):
            other.close()

    staging.stage((DataSource("s3://runs/set", str(tmp_path)),), report)
    notes = [one.note for one in told if isinstance(one, StagingProgress)]
    assert notes[:3] == ["listing", "", "another pod fetches into the same volume"]
    assert files(tmp_path) == {"a": b"12345"}
