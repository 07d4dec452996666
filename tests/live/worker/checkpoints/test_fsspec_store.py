"""Checkpoints on an address of fsspec's are whole or not there."""

import subprocess
import sys

import pytest

from cotenant_worker.checkpoints import fsspec_store
from tests.worker.checkpoints.test_fsspec_store import write

pytestmark = pytest.mark.s3


def test_s3_keeps_the_newest_whole_checkpoint(bucket: str) -> None:
    url = "s3://runs/team/job"
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
    url = "s3://runs/team/job"
    fsspec_store.save(url, 1, write("1"), meta={}, keep=2)
    assert fsspec_store.latest(url).step == 1  # type: ignore[union-attr]
    save = "import sys; from cotenant_worker.checkpoints import fsspec_store; fsspec_store.save(sys.argv[1], 2, "
    save += "lambda folder: (folder / 'model.bin').write_text('2') and None, meta={}, keep=2)"
    subprocess.run([sys.executable, "-c", save, url], check=True)
    assert fsspec_store.latest(url).step == 2  # type: ignore[union-attr]
