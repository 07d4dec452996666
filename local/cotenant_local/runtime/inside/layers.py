"""The machine's /usr for a container: writable, discarded with the container, and never written to the machine.

An overlay whose upper layer is memory. The memory is mounted for a moment and then detached: only the overlays hold it,
so no container can reach the layers by another way than through them.
"""

import os
from pathlib import Path
from typing import Final

from cotenant_local.runtime.inside import syscalls

FOLDER: Final = "/.layers"
OWN_DEPTH, OWN_DEPTH_LOCAL, OWN_MOST = 2, 5, 2000
"""How deep below /usr and below /usr/local a container of an ordinary user finds folders of its own, and how many."""


def mount_overlay(lower: str, target: str, mount_points: dict[str, bool]) -> bool:
    """Mounts `lower` with a writable layer at `target`, an absent or an empty folder. False: not possible here.

    `mount_points` will be there, as folders (True) or files: in a user namespace they cannot be made later, because
    the machine's root, which owns the folders around them, has no id there.

    Mounts below `lower` would not be seen through an overlay. Kernels before 5.11 refuse it in a user namespace, and
    all do if the machine's own root is the second layer already.
    """
    if _has_mounts_below(lower):
        return False
    if not os.path.ismount(FOLDER):
        syscalls.mount("tmpfs", FOLDER, syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=0700")
    here = f"{FOLDER}/{len(os.listdir(FOLDER))}"
    os.makedirs(f"{here}/upper")
    os.mkdir(f"{here}/work")
    os.chmod(f"{here}/upper", os.stat(lower).st_mode & 0o7777)
    for path, folder in mount_points.items():
        if path.startswith(target + "/"):
            _make_mount_point(path.removeprefix(target + "/").split("/"), lower, f"{here}/upper", folder=folder)
    if _has_foreign_owner(lower):
        _make_own_folders(lower, f"{here}/upper")
    os.makedirs(target, exist_ok=True)
    layers = f"lowerdir={lower},upperdir={here}/upper,workdir={here}/work"
    try:
        syscalls.mount("overlay", target, syscalls.MS_NODEV, layers + ",userxattr")
    except OSError:
        return False
    return True


def _make_mount_point(names: list[str], lower: str, upper: str, *, folder: bool) -> None:
    """Creates the mount point below `upper` if it is missing below `lower`. Shared folders keep the lower's mode."""
    if os.path.lexists("/".join([lower, *names])):
        return
    for name in names[:-1] if not folder else names:
        lower, upper = f"{lower}/{name}", f"{upper}/{name}"
        if not os.path.isdir(upper):
            os.mkdir(upper)
            os.chmod(upper, os.stat(lower).st_mode & 0o7777 if os.path.isdir(lower) else 0o755)
    if not folder:
        os.close(os.open(f"{upper}/{names[-1]}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _has_foreign_owner(folder: str) -> bool:
    """True if its owner has no id in this user namespace, so that no process may write in the folders below."""
    return os.stat(folder).st_uid == int(Path("/proc/sys/kernel/overflowuid").read_text())


def _make_own_folders(lower: str, upper: str) -> None:
    """Creates folders in the upper layer with the modes of the lower, so that they are writable.

    Programs install into these. Deeper folders and existing files are writable only by the machine's root.
    """
    waiting, made = [""], 0
    while waiting and made < OWN_MOST:
        name = waiting.pop(0)
        depth = OWN_DEPTH_LOCAL if f"{name}/".startswith("/local/") else OWN_DEPTH
        with os.scandir(lower + name) as entries:
            folders = [f"{name}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]
        for folder in folders:
            if not os.path.isdir(upper + folder):
                os.mkdir(upper + folder)
                os.chmod(upper + folder, os.stat(lower + folder).st_mode & 0o7777)
                made += 1
            if folder.count("/") < depth:
                waiting.append(folder)


def detach() -> None:
    """Detach the memory's own mount, so that the layers can be reached through the overlays only."""
    if os.path.ismount(FOLDER):
        syscalls.unmount(FOLDER)
    os.rmdir(FOLDER)


def _has_mounts_below(folder: str) -> bool:
    with open("/proc/self/mountinfo") as file:
        return any(line.split()[4].startswith(folder + "/") for line in file)
