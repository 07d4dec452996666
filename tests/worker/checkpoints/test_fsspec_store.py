"""Checkpoints on an address of fsspec's are whole or not there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from cotenant_worker.checkpoints import fsspec_store
from cotenant_worker.host.layout import ENV_STATE
from tests.worker.object_stores import s3_server


def write(text: str):  # type: ignore[no-untyped-def]
    def fill(directory: Path) -> None:
        (directory / "model.bin").write_text(text)
        (directory / "shards").mkdir()
        (directory / "shards" / "0").write_text(text * 2)

    return fill


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server.s3_server() as address:
        yield address


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Address of an empty bucket, reached as a job reaches MinIO: by variables alone."""
    for name, value in s3_server.environment(server).items():
        monkeypatch.setenv(name, value)
    s3_server.emptied(server)
    return "s3://runs"


def test_s3_keeps_the_newest_whole_checkpoint(bucket: str) -> None:
    url = f"{bucket}/team/job"
    assert fsspec_store.latest(url) is None
    for step in (1, 2, 3):
        fsspec_store.save(url, step, write(str(step)), meta={"seed": step}, keep=2)
    found = fsspec_store.latest(url)
    assert found is not None
    assert (found.step, found.meta, (found.path / "shards" / "0").read_text()) == (3, {"seed": 3}, "33")
    files, root = fsspec_store.file_system(url)
    assert sorted(files.ls(root, detail=False)) == [f"step-00000000000{step}" for step in (2, 3)]


def test_a_checkpoint_that_another_rank_has_saved_meanwhile_is_found(bucket: str) -> None:
    """Listings are remembered by a file system; another process's uploads are not in them."""
    url = f"{bucket}/team/job"
    fsspec_store.save(url, 1, write("1"), meta={}, keep=2)
    assert fsspec_store.latest(url).step == 1  # type: ignore[union-attr]
    save = "import sys; from cotenant_worker.checkpoints import fsspec_store; fsspec_store.save(sys.argv[1], 2, "
    save += "lambda folder: (folder / 'model.bin').write_text('2') and None, meta={}, keep=2)"
    subprocess.run([sys.executable, "-c", save, url], check=True)
    assert fsspec_store.latest(url).step == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_an_fsspec_address_keeps_the_newest_whole_checkpoint(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}://{tmp_path}/job"
    assert fsspec_store.latest(url) is None
    for step in (1, 2, 3):
        fsspec_store.save(url, step, write(str(step)), meta={"seed": step}, keep=2)
    found = fsspec_store.latest(url)
    assert found is not None
    assert (found.step, found.meta, (found.path / "shards" / "0").read_text()) == (3, {"seed": 3}, "33")
    files, root = fsspec.core.url_to_fs(url)
    assert len(files.ls(root)) == 2
    files.rm(f"{root}/step-000000000003/manifest.json")
    assert fsspec_store.latest(url).step == 2  # type: ignore[union-attr]
    files.pipe_file(f"{root}/step-000000000002/model.bin", b"x")
    assert fsspec_store.latest(url) is None


def test_what_a_rank_fetched_goes_with_it_also_where_it_was_killed(tmp_path: Path) -> None:
    url, state = f"file://{tmp_path}/job", tmp_path / "state"
    state.mkdir()
    fsspec_store.save(url, 1, write("1"), meta={}, keep=1)
    fetch = f"import os; from cotenant_worker.checkpoints import fsspec_store; found = fsspec_store.latest({url!r}); "
    env = {**os.environ, ENV_STATE: str(state)}

    def rank(then: str) -> int:
        return subprocess.run([sys.executable, "-c", fetch + then], env=env, check=False).returncode

    def left() -> list[str]:
        return [file.name for file in state.glob("*/*/model.bin")]

    assert (rank("os.kill(os.getpid(), 9)"), left()) == (-9, ["model.bin"])
    assert (rank("os.kill(os.getpid(), 9)"), left()) == (-9, ["model.bin"])
    seen = "assert (found.path / 'model.bin').is_file(); pid = os.fork(); "
    assert (rank(f"{seen} pid and os.wait(); pid and (found.path / 'model.bin').stat()"), left()) == (0, [])
