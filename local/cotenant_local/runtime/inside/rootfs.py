"""A container's file system: a fresh tmpfs, the image's folders, its own /dev, /proc, /sys, the pod's mounts.

Every bind is cloned while the old root is still there and attached after the pivot, so mount points are looked up in
the new root: a symbolic link in an image or a volume cannot lead a mount outside. /proc and /sys are mounted while the
old ones are visible, which the kernel demands in a user namespace.
"""

import contextlib
import os
import stat
from typing import Any, Final

from cotenant_local.runtime.inside import layers, syscalls
from cotenant_local.runtime.inside.reports import SetupError
from cotenant_local.runtime.inside.syscalls import (
    CLONE_NEWNS,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_SHARED,
    MS_SLAVE,
)

OLD: Final = "/.old"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
PROPAGATION = {"private": MS_PRIVATE, "slave": MS_SLAVE, "shared": MS_SHARED}

Tree = tuple[int, dict[str, Any], bool]
"""A cloned mount: descriptor, the bind of the spec, and whether it is a folder."""


def enter(spec: dict[str, Any]) -> None:
    """Moves the calling process into its own mount namespace, whose root is the container's."""
    trees = [_clone(bind) for bind in spec["binds"]]
    devices = [_clone({"source": f"/dev/{name}", "target": f"/dev/{name}"}) for name in DEVICES]
    devices += [_clone(device) for device in spec["devices"]]
    syscalls.unshare(CLONE_NEWNS)
    syscalls.change_propagation("/", MS_REC | MS_SLAVE)
    root = spec["root"]
    syscalls.mount("tmpfs", root, MS_NOSUID | MS_NODEV, "mode=0755")
    os.mkdir(root + OLD)
    syscalls.pivot_root(root, root + OLD)
    os.chdir("/")
    _layout(spec)
    _mount_kernel_files(spec)
    for tree in devices:
        _attach(tree)
    _attach_layered(trees)
    syscalls.unmount(OLD)
    os.rmdir(OLD)
    _mask(spec)


def make_readonly(spec: dict[str, Any]) -> None:
    """Makes the root read-only, as the last step, when the pod asks for it. What the pod mounts keeps its own mode."""
    if not spec["readonly_root"]:
        return
    for path in ("/", *(bind["target"] for bind in spec["binds"] if bind.get("layered"))):
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        syscalls.set_mount(fd, readonly=True, what="the root")
        os.close(fd)


def _clone(bind: dict[str, Any]) -> Tree:
    source = bind["source"]
    try:
        mode = os.stat(source).st_mode
        fd = syscalls.clone_tree(source)
        propagation = PROPAGATION[bind.get("propagation", "private")]
        recursive = bind.get("recursive_readonly", False)
        syscalls.set_mount(fd, readonly=False, propagation=propagation, recursive=True, what=source)
        if bind.get("readonly"):
            syscalls.set_mount(fd, readonly=True, recursive=recursive, what=source)
    except OSError as error:
        raise SetupError(f"mount {bind['target']}: {source}: {error.strerror}") from error
    return fd, bind, stat.S_ISDIR(mode)


def _attach_layered(trees: list[Tree]) -> None:
    """Attaches the binds. If no writable layer is possible, the folder is read-only."""
    os.mkdir(layers.FOLDER)
    mount_points = {bind["target"]: folder for _, bind, folder in trees if not bind.get("layered")}
    for tree in trees:
        fd, bind, _ = tree
        if bind.get("layered") and layers.mount_overlay(OLD + bind["source"], bind["target"], mount_points):
            os.close(fd)
        else:
            _attach(tree)
    layers.detach()


def _attach(tree: Tree) -> None:
    fd, bind, folder = tree
    target = bind["target"]
    try:
        _make_mount_point(target, folder=folder)
        syscalls.attach(fd, target)
    except OSError as error:
        raise SetupError(f"mount {target}: {error.strerror} (from {bind['source']})") from error
    finally:
        os.close(fd)


def _make_mount_point(target: str, *, folder: bool) -> None:
    if os.path.exists(target):
        return
    if folder:
        os.makedirs(target, exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _layout(spec: dict[str, Any]) -> None:
    os.umask(0o022)
    for path, mode in spec["folders"].items():
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
    for path, content in spec["files"].items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(content)
    for path, target in spec["links"].items():
        with contextlib.suppress(FileExistsError):
            os.symlink(target, path)


def _mount_kernel_files(spec: dict[str, Any]) -> None:
    quiet = MS_NOSUID | MS_NODEV | MS_NOEXEC
    syscalls.mount("proc", "/proc", quiet)
    sys_mode = 0 if spec["privileged"] else MS_RDONLY
    try:
        syscalls.mount("sysfs", "/sys", quiet | sys_mode)
    except OSError:  # not owner of the network namespace: show the sandbox's
        syscalls.bind(OLD + "/sys", "/sys", readonly=not spec["privileged"])
    if spec["cgroup_folder"]:  # version 1 has a folder per controller, which a fresh sysfs lacks
        syscalls.mount("tmpfs", "/sys/fs/cgroup", quiet, "mode=0755,size=64k")
    syscalls.mount("tmpfs", "/dev", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755,size=64k")
    for name in ("pts", "shm", "mqueue"):
        os.mkdir("/dev/" + name)
    syscalls.mount("devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    with contextlib.suppress(OSError):  # needs the pod's own IPC namespace
        syscalls.mount("mqueue", "/dev/mqueue", quiet)
    for name, target in LINKS.items():
        os.symlink(target, "/dev/" + name)
    if spec["privileged"]:
        _all_devices()
    if spec["shm"]:
        syscalls.bind(OLD + spec["shm"], "/dev/shm")


def _all_devices() -> None:
    """A privileged container sees every device node of the machine."""
    for entry in os.scandir(OLD + "/dev"):
        target = "/dev/" + entry.name
        if entry.is_symlink() or os.path.lexists(target) or entry.name in DEVICES or entry.name == "console":
            continue
        with contextlib.suppress(OSError):
            _make_mount_point(target, folder=entry.is_dir())
            syscalls.bind(entry.path, target)


def _mask(spec: dict[str, Any]) -> None:
    for path in spec["masked_paths"]:
        if os.path.isdir(path):
            syscalls.mount("tmpfs", path, MS_RDONLY, "size=0")
        elif os.path.exists(path):
            syscalls.bind("/dev/null", path)
    for path in spec["readonly_paths"]:
        if os.path.exists(path):
            syscalls.bind(path, path, readonly=True)
