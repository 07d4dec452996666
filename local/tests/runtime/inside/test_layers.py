"""Layers to write in over the machine's folders: what is made in them before they are mounted, and with which modes."""

from pathlib import Path
from typing import Any

import pytest

from cotenant_local.runtime.inside import layers, syscalls


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    folder = tmp_path / "usr"
    (folder / "lib" / "python3").mkdir(parents=True)
    (folder / "lib").chmod(0o751)
    (folder / "lib" / "python3" / "site").mkdir()
    (folder / "local" / "a" / "b").mkdir(parents=True)
    (folder / "link").symlink_to("lib")
    (folder / "file").touch()
    folder.chmod(0o755)
    return folder


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    made: list[tuple[Any, ...]] = []
    (tmp_path / "layers").mkdir()
    monkeypatch.setattr(layers, "FOLDER", str(tmp_path / "layers"))
    monkeypatch.setattr(syscalls, "mount", lambda *arguments: made.append(arguments))
    return made


def tree(folder: Path) -> dict[str, int]:
    """Path → mode, of everything below."""
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o7777 for path in sorted(folder.rglob("*"))}


def test_a_layer_is_mounted_over_its_folder_with_the_mount_points_that_the_folder_lacks(
    lower: Path, tmp_path: Path, mounts: list[tuple[Any, ...]]
) -> None:
    target = str(tmp_path / "target")
    points = {
        f"{target}/lib/data/deep": True,
        f"{target}/lib/one.so": False,
        f"{target}/lib/python3": True,  # is there
        "/elsewhere": True,
    }
    assert layers.mount_overlay(str(lower), target, points) is True
    own = tmp_path / "layers" / "0"
    assert tree(own / "upper") == {"lib": 0o751, "lib/data": 0o755, "lib/data/deep": 0o755, "lib/one.so": 0o644}
    options = f"lowerdir={lower},upperdir={own}/upper,workdir={own}/work,userxattr"
    assert mounts[1:] == [("overlay", target, syscalls.MS_NODEV, options)]
    assert mounts[0][:2] == ("tmpfs", layers.FOLDER)


def test_a_kernel_that_refuses_leaves_the_folder_without_a_layer(
    lower: Path, tmp_path: Path, mounts: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(kind: str, *_: object) -> None:
        if kind == "overlay":
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(syscalls, "mount", refuse)
    assert layers.mount_overlay(str(lower), str(tmp_path / "target"), {}) is False


def test_mounts_below_a_folder_would_not_be_seen_through_a_layer(mounts: list[tuple[Any, ...]]) -> None:
    assert layers.mount_overlay("", "/target", {}) is False  # below the root there are mounts
    assert mounts == []


def test_folders_of_a_foreign_owner_are_ones_own_two_deep_and_further_below_usr_local(
    lower: Path, tmp_path: Path, mounts: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "_has_foreign_owner", lambda _: True)
    assert layers.mount_overlay(str(lower), str(tmp_path / "target"), {}) is True
    made = tree(tmp_path / "layers" / "0" / "upper")
    assert list(made) == ["lib", "lib/python3", "local", "local/a", "local/a/b"]
    assert made["lib"] == 0o751


def test_no_more_folders_are_made_than_allowed(
    lower: Path, tmp_path: Path, mounts: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "_has_foreign_owner", lambda _: True)
    monkeypatch.setattr(layers, "OWN_MOST", 2)
    assert layers.mount_overlay(str(lower), str(tmp_path / "target"), {}) is True
    assert sorted(tree(tmp_path / "layers" / "0" / "upper")) == ["lib", "local"]
