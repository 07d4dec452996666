"""The root of a container, step by step, with mounts that are only written down."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.runtime.inside import layers, rootfs, syscalls
from cotenant_local.runtime.inside.reports import SetupError

Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made: Calls = []

    def recorded(name: str) -> Callable[..., int]:
        def call(*arguments: Any, **options: Any) -> int:
            made.append((name, *arguments, *sorted(options.items())))
            return os.open(os.devnull, os.O_RDONLY) if name == "clone_tree" else 0

        return call

    for name in ("mount", "bind", "attach", "clone_tree", "set_mount"):
        monkeypatch.setattr(syscalls, name, recorded(name))
    return made


def test_folders_files_and_links_are_laid_out_with_their_modes(tmp_path: Path) -> None:
    before = os.umask(0o077)
    root = str(tmp_path)
    spec = {
        "folders": {f"{root}/tmp": 0o1777, f"{root}/var/log": 0o755},
        "files": {f"{root}/etc/hostname": "web\n"},
        "links": {f"{root}/run": "/var/run", f"{root}/tmp": "/never"},
    }
    try:
        rootfs._layout(spec)
    finally:
        os.umask(before)
    modes = {name: (tmp_path / name).stat().st_mode & 0o7777 for name in ("tmp", "var/log", "etc", "etc/hostname")}
    assert modes == {"tmp": 0o1777, "var/log": 0o755, "etc": 0o755, "etc/hostname": 0o644}
    assert ((tmp_path / "etc/hostname").read_text(), (tmp_path / "run").readlink()) == ("web\n", Path("/var/run"))


def test_a_bind_is_cloned_writable_and_then_closed_as_far_as_asked(tmp_path: Path, calls: Calls) -> None:
    source = str(tmp_path)
    bind = {"source": source, "target": "/data", "readonly": True, "recursive_readonly": True, "propagation": "slave"}
    fd, of, folder = rootfs._clone(bind)
    os.close(fd)
    assert (of, folder) == (bind, True)
    slave = ("propagation", syscalls.MS_SLAVE)
    assert [(name, *rest) if name == "clone_tree" else (name, *rest[1:]) for name, *rest in calls] == [
        ("clone_tree", source),
        ("set_mount", slave, ("readonly", False), ("recursive", True), ("what", source)),
        ("set_mount", ("readonly", True), ("recursive", True), ("what", source)),
    ]


def test_a_mount_of_something_missing_is_named_by_target_and_source(calls: Calls) -> None:
    with pytest.raises(SetupError) as refusal:
        rootfs._clone({"source": "/no/such", "target": "/data"})
    assert (str(refusal.value), calls) == ("mount /data: /no/such: No such file or directory", [])


def test_a_mount_point_is_made_as_what_is_mounted_there(tmp_path: Path, calls: Calls) -> None:
    for name, folder in (("a/folder", True), ("b/file", False)):
        fd = os.open(os.devnull, os.O_RDONLY)
        rootfs._attach((fd, {"source": "/s", "target": f"{tmp_path}/{name}"}, folder))
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    assert ((tmp_path / "a/folder").is_dir(), (tmp_path / "b/file").is_file()) == (True, True)
    assert [(name, target) for name, _, target in calls] == [
        ("attach", f"{tmp_path}/a/folder"),
        ("attach", f"{tmp_path}/b/file"),
    ]


def test_a_folder_that_can_have_no_layer_is_attached_as_it_is(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Calls = []

    def only_usr(*arguments: Any) -> bool:
        asked.append(arguments)
        return bool(arguments[1].endswith("/usr"))

    monkeypatch.setattr(layers, "FOLDER", str(tmp_path / ".layers"))
    monkeypatch.setattr(layers, "mount_overlay", only_usr)
    usr, lib, data = (f"{tmp_path}/{name}" for name in ("usr", "lib", "data"))
    binds: list[dict[str, Any]] = [
        {"source": "/usr", "target": usr, "layered": True},
        {"source": "/lib", "target": lib, "layered": True},
        {"source": "/d", "target": data},
    ]
    rootfs._attach_layered([(os.open(os.devnull, os.O_RDONLY), bind, True) for bind in binds])
    assert asked == [("/.old/usr", usr, {data: True}), ("/.old/lib", lib, {data: True})]
    assert [(name, target) for name, _, target in calls] == [("attach", lib), ("attach", data)]
    assert not (tmp_path / ".layers").exists()


def test_paths_of_the_kernel_are_covered_by_their_kind_and_absent_ones_left_out(tmp_path: Path, calls: Calls) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    folder, file, absent = (f"{tmp_path}/{name}" for name in ("folder", "file", "absent"))
    rootfs._mask({"masked_paths": [folder, file, absent], "readonly_paths": [folder, absent]})
    assert calls == [
        ("mount", "tmpfs", folder, syscalls.MS_RDONLY, "size=0"),
        ("bind", "/dev/null", file),
        ("bind", folder, folder, ("readonly", True)),
    ]


@pytest.mark.parametrize(("asked", "count"), [(True, 2), (False, 0)])
def test_a_read_only_root_is_the_root_and_its_layers(tmp_path: Path, calls: Calls, asked: bool, count: int) -> None:
    binds = [{"target": str(tmp_path), "layered": True}, {"target": "/data"}]
    rootfs.make_readonly({"readonly_root": asked, "binds": binds})
    assert [(name, *rest[1:]) for name, *rest in calls] == count * [
        ("set_mount", ("readonly", True), ("what", "the root"))
    ]
