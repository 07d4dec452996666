"""A cluster's folder by its name: claimed, locked, cleared, and forgotten."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from cotenant_local.cluster import ownership
from cotenant_local.host import cgroup_claims
from cotenant_local.host.errors import LocalError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of clusters, in a state folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(cgroup_claims, "sweep", lambda: None)
    return tmp_path / "state" / "cotenant" / "local"


def test_a_cluster_has_the_folder_of_its_name_with_all_places_in_it(home: Path) -> None:
    state = ownership.claim("demo", None)
    assert state.path == home / "demo"
    assert sorted(entry.name for entry in state.path.iterdir()) == ["config", "etcd", "logs", "pki", "volumes"]
    assert {entry.stat().st_mode & 0o777 for entry in state.path.iterdir()} == {0o700}


def test_a_folder_that_outlives_the_cluster_is_linked_under_its_name(home: Path, tmp_path: Path) -> None:
    assert ownership.claim("demo", tmp_path / "kept").path == tmp_path / "kept"
    assert (home / "demo").readlink() == tmp_path / "kept"
    ownership.claim("demo", tmp_path / "other")
    assert (home / "demo").readlink() == tmp_path / "other"
    own = ownership.claim("demo", None)
    assert (own.path.is_symlink(), (tmp_path / "other").is_dir()) == (False, True)
    with pytest.raises(LocalError, match=r"cluster 'demo' already has a folder, .*local down --name demo"):
        ownership.claim("demo", tmp_path / "kept")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalError) as refusal:
        ownership.claim("demo", tmp_path / "file" / "kept")
    assert str(refusal.value) == f"the cluster's folder {tmp_path}/file/kept cannot be made: Not a directory."


def test_a_cluster_is_up_as_long_as_its_lock_is_held_by_whoever_inherited_it() -> None:
    state = ownership.claim("demo", None)
    assert not ownership.is_up(state)
    with ownership.locked(state, "demo") as descriptor:
        inherited = os.dup(descriptor)
        assert ownership.is_up(state)
        with (
            pytest.raises(LocalError, match=r"cluster 'demo' is up already\. Use it: export KUBECONFIG="),
            ownership.locked(state, "demo"),
        ):
            pass
    assert ownership.is_up(state)
    assert not ownership.wait_down(state, 0)
    os.close(inherited)
    assert not ownership.is_up(state)
    assert ownership.wait_down(state, 0)


@pytest.mark.parametrize(
    ("kept", "left"),
    [(False, {"lock"}), (True, {"lock", "etcd/db", "config/x"})],
)
def test_what_a_killed_cluster_left_is_cleared_but_for_kept_state(kept: bool, left: set[str]) -> None:
    state = ownership.claim("demo", None)
    for name in ("lock", "etcd/db", "config/x", "logs/etcd.log"):
        (state.path / name).write_text("old")
    ownership.clear(state, kept=kept)
    files = {str(file.relative_to(state.path)) for file in state.path.rglob("*") if file.is_file()}
    assert (files, state.logs.is_dir(), state.pki.is_dir()) == (left, True, True)


@pytest.mark.parametrize("short", [0, 1])
def test_a_disk_that_is_too_full_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch, short: int) -> None:
    state = ownership.claim("demo", None)
    free = ownership.NEEDED_BYTES - short
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    if not short:
        ownership.check_disk_space(state)
        return
    with pytest.raises(LocalError, match="has 255 MiB left; a cluster needs 256 MiB"):
        ownership.check_disk_space(state)


def test_nothing_of_a_cluster_that_has_ended_stays_even_where_no_one_may_enter(home: Path) -> None:
    state = ownership.claim("demo", None)
    closed = state.path / "nodes" / "closed"
    (closed / "below").mkdir(parents=True)
    closed.chmod(0)
    (state.path / "link").symlink_to("/")
    ownership.forget("demo", state)
    assert list(home.iterdir()) == []


def test_a_folder_that_was_given_outlives_its_cluster(home: Path, tmp_path: Path) -> None:
    state = ownership.claim("demo", tmp_path / "kept")
    state.control.touch()
    (state.etcd / "db").touch()
    ownership.forget("demo", state)
    assert (list(home.iterdir()), state.control.exists(), (state.etcd / "db").exists()) == ([], False, True)


def test_two_that_forget_the_same_cluster_at_once_are_both_content(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = ownership.claim("demo", None)
    real, calls = shutil.rmtree, []

    def beaten(path: Path) -> None:
        calls.append(path)
        if len(calls) == 1:
            real(path / "pki")
            raise FileNotFoundError(path / "pki")
        real(path)

    monkeypatch.setattr(shutil, "rmtree", beaten)
    ownership.forget("demo", state)
    assert (len(calls), home.joinpath("demo").exists()) == (2, False)
