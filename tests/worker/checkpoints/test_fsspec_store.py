"""Checkpoints on an address of fsspec's are whole or not there."""

import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from cotenant_worker.checkpoints import fsspec_store
from cotenant_worker.host.layout import ENV_STATE


def write(text: str):  # type: ignore[no-untyped-def]
    def fill(directory: Path) -> None:
        (directory / "model.bin").write_text(text)
        (directory / "shards").mkdir()
        (directory / "shards" / "0").write_text(text * 2)

    return fill


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
