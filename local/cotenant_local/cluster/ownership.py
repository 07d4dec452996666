"""A cluster's folder: claimed by its name, locked as long as the cluster lives, cleared, and in the end forgotten.

The lock (flock) is inherited by the sandbox: the kernel lets go of it when the last process dies, so the lock alone
tells whether a cluster is up.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from cotenant_local.host import cgroup_claims, folders, user_ids
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.errors import LocalError

NEEDED_BYTES = 256 << 20
"""etcd alone takes 64 MiB for its journal at once; logs and containers come on top."""


def is_up(state: ClusterFolder) -> bool:
    try:
        descriptor = os.open(state.lock, os.O_RDWR)
    except OSError:
        return False
    try:
        # Shared, so that two of these at once do not take each other for a cluster.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def wait_down(state: ClusterFolder, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_up(state):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def claim(name: str, keep_in: Path | None) -> ClusterFolder:
    """The cluster's folder: its own, or by way of a link one that outlives it."""
    folder = folders.cluster(name)
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if keep_in is not None:
            keep_in = keep_in.resolve()
            _link(name, folder, keep_in)
        elif folder.is_symlink() and not is_up(ClusterFolder(folder)):
            folder.unlink()
        state = ClusterFolder(keep_in or folder)
        state.prepare()
    except OSError as error:
        raise LocalError(f"the cluster's folder {keep_in or folder} cannot be made: {error.strerror}.") from error
    return state


def _link(name: str, folder: Path, keep_in: Path) -> None:
    keep_in.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() and folder.resolve() != keep_in:
        folder.unlink()
    if not folder.is_symlink():
        if folder.exists():
            raise LocalError(f"cluster {name!r} already has a folder, {folder}. Run: cotenant local down --name {name}")
        folder.symlink_to(keep_in)


@contextlib.contextmanager
def locked(state: ClusterFolder, name: str) -> Iterator[int]:
    """The lock goes to the sandbox; this process lets go of its own copy at the end."""
    descriptor = os.open(state.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalError(
                f"cluster {name!r} is up already. Use it: export KUBECONFIG={state.kubeconfig}\n"
                f"or end it: cotenant local down --name {name}"
            ) from None
        yield descriptor
    finally:
        os.close(descriptor)


def clear(state: ClusterFolder, *, kept: bool) -> None:
    """Removes what a killed cluster left behind. Of persistent state only what belongs to that run."""
    if kept:
        shutil.rmtree(state.logs, ignore_errors=True)
    else:
        for entry in state.path.iterdir():
            if entry != state.lock:
                _remove(entry)
    state.prepare()


def check_disk_space(state: ClusterFolder) -> None:
    """Checks before anything is started: components on a full disk die with much noise and little sense."""
    free = shutil.disk_usage(state.path).free
    if free < NEEDED_BYTES:
        raise LocalError(
            f"the disk of {state.path} has {free >> 20} MiB left; a cluster needs {NEEDED_BYTES >> 20} MiB. Make room, "
            "or put its state on another disk with --state DIR or XDG_STATE_HOME."
        )


def forget(name: str, state: ClusterFolder) -> None:
    """Removes everything of a cluster that has ended, except a folder given with --state."""
    folder = folders.cluster(name)
    cgroup_claims.sweep()
    if folder.is_symlink():
        folder.unlink()
        state.control.unlink(missing_ok=True)
        return
    _remove(state.path)


def _remove(path: Path) -> None:
    """Containers leave folders that even their owner may not enter, and files of other users."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for folder, names, _ in os.walk(path):
        for child in (Path(folder, name) for name in names):
            if not child.is_symlink():
                with contextlib.suppress(OSError):
                    child.chmod(stat.S_IRWXU)
    try:
        shutil.rmtree(path)
    except PermissionError:
        user_ids.remove(path)
    except FileNotFoundError:  # somebody else takes the same cluster down
        _remove(path)
