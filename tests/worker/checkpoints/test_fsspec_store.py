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
    files.pipe_file(f"{root}/step-000000000002/model.bin", b"x")
    assert fsspec_store.latest(url) is None
    fsspec_store.save(url, 2, write("two"), meta={}, keep=2)
    assert fsspec_store.latest(url).step == 2  # type: ignore[union-attr]


class KilledError(BaseException):
    pass


def test_a_step_that_is_saved_again_is_there_until_the_new_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"memory://{tmp_path}/job"
    fsspec_store.save(url, 100, write("old"), meta={}, keep=2)
    files, root = fsspec_store.file_system(url)
    put, uploads = files.put_file, []

    def put_some(*args: str) -> None:
        uploads.append(args)
        if len(uploads) == 2:
            raise KilledError
        put(*args)

    monkeypatch.setattr(type(files), "put_file", lambda _, *args: put_some(*args))
    with pytest.raises(KilledError):
        fsspec_store.save(url, 100, write("new"), meta={}, keep=2)
    monkeypatch.undo()
    assert (fsspec_store.latest(url).path / "model.bin").read_text() == "old"  # type: ignore[union-attr]
    fsspec_store.save(url, 100, write("newer"), meta={}, keep=2)
    assert (fsspec_store.latest(url).path / "model.bin").read_text() == "newer"  # type: ignore[union-attr]
    assert not files.exists(f"{root}step-000000000100/model.bin")


def test_the_ranks_of_a_pod_share_one_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_STATE, str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    url = f"file://{tmp_path}/job"
    fsspec_store.save(url, 1, write("1"), meta={}, keep=1)
    fetch = f"import sys; from cotenant_worker.checkpoints import fsspec_store; found = fsspec_store.latest({url!r});"
    fetch += "print(found.path, found.path.stat().st_ino, flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    ranks = [subprocess.Popen([sys.executable, "-c", fetch], stdin=pipe, stdout=pipe, text=True) for _ in range(3)]
    copies = {rank.stdout.readline() for rank in ranks if rank.stdout}
    for rank in ranks:
        rank.communicate("")
    assert len(copies) == 1
    assert list((tmp_path / "state").glob("*/*/model.bin")) == []


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
