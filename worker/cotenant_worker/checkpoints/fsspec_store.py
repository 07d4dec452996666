"""Checkpoints on any fsspec address (`s3://…`, `gs://…`, `file://…`). Imports fsspec; runs in ranks only.

Object stores are accessed by obstore (`object_store`), one compiled package for all of them; other addresses by
fsspec's own classes. An object store has no rename, so the manifest completes a checkpoint: it is uploaded last, and a
step without one is ignored. Reading copies the step into a local directory and compares every checksum.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import fsspec

from cotenant_worker.checkpoints import local_store
from cotenant_worker.checkpoints.local_store import MANIFEST, Checkpoint
from cotenant_worker.host import layout

OBJECT_STORES: Final = frozenset({"s3", "gs", "az"})
_COPY: Final = "cotenant-resume-"
_WHOLE: Final = ".whole"
"""Marker in a copy that is complete and verified."""
_FOLDER: Final = "folder"
"""Key in the manifest of a step that was saved again: the folder below the step that has its files."""
_held: dict[str, int] = {}
"""Copies that this process uses: descriptor of the lock → copy."""


def file_system(url: str) -> tuple[Any, str]:
    """The fsspec file system of an address, and the path in it."""
    if url.partition("://")[0] in OBJECT_STORES:
        from cotenant_worker.object_stores.object_store import ObjectStore  # an image may have fsspec alone

        return ObjectStore(url), ""
    files, root = fsspec.core.url_to_fs(url)
    return files, str(root).rstrip("/") + "/"


def save(url: str, step: int, write: Callable[[Path], None], *, meta: dict[str, Any], keep: int) -> None:
    """Write locally, upload, then upload the manifest, which completes the checkpoint."""
    files, root = file_system(url)
    target = f"{root}{local_store.name_of(step)}"
    with tempfile.TemporaryDirectory(prefix="cotenant-checkpoint-") as scratch:
        local = local_store.save(Path(scratch), step, write, meta=meta, keep=1).path
        _upload(files, local, target)
    for old in _steps(files, root)[max(1, keep) :]:
        # The manifest goes first: what is left of an interrupted removal is not a checkpoint.
        if files.exists(f"{old}/{MANIFEST}"):
            files.rm(f"{old}/{MANIFEST}")
        files.rm(old, recursive=True)


def _upload(files: Any, local: Path, target: str) -> None:
    """Upload a step. If the step exists, it may be the only checkpoint, so it stays complete until the new manifest
    names files in another folder.
    """
    manifest = local / MANIFEST
    before = _manifest(files, target)
    folder = f"{uuid.uuid4().hex[:8]}/" if before else ""
    if before:
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), _FOLDER: folder}))
    elif files.exists(target):
        files.rm(target, recursive=True)
    files.makedirs(target, exist_ok=True)
    for path in sorted(local.rglob("*")):
        if path.is_file() and path != manifest:
            remote = f"{target}/{folder}{path.relative_to(local)}"
            files.makedirs(remote.rsplit("/", 1)[0], exist_ok=True)
            files.put_file(str(path), remote)
    files.put_file(str(manifest), f"{target}/{MANIFEST}")
    for name in before.get("files", ()):
        with contextlib.suppress(OSError):
            files.rm(f"{target}/{before.get(_FOLDER, '')}{name}")


def _manifest(files: Any, step: str) -> dict[str, Any]:
    """The manifest of a stored step; empty if it has none."""
    if not files.exists(f"{step}/{MANIFEST}"):
        return {}
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(files.cat_file(f"{step}/{MANIFEST}"))
        return found if isinstance(found, dict) else {}
    return {}


def latest(url: str) -> Checkpoint | None:
    """The newest step that can be copied completely, in a local directory that the ranks of a pod share for reading.

    The copy lives as long as a process that has asked for it.
    """
    files, root = file_system(url)
    files.invalidate_cache()  # another rank may have saved since this process last looked
    if not files.exists(root):
        return None
    found = (_fetch(files, url, step) for step in _steps(files, root))
    return next((checkpoint for checkpoint in found if checkpoint is not None), None)


def _scratch() -> Path:
    """Folder for copies that the ranks of a pod share."""
    return layout.state_dir() if layout.state_dir().is_dir() else Path(tempfile.gettempdir())


def _lock(copy: Path, kind: int) -> int | None:
    """A lock on a copy, as a descriptor; None if another process holds a lock that excludes `kind`."""
    descriptor = os.open(copy.with_name(f".{copy.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_unused(but: Path) -> None:
    """Remove copies that no process uses any more, such as those of killed ranks or of older steps."""
    for copy in but.parent.glob(f"{_COPY}*"):
        descriptor = None if copy == but else _lock(copy, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if descriptor is not None:
            shutil.rmtree(copy, ignore_errors=True)
            os.close(descriptor)


def _keep_while_we_live(copy: Path, descriptor: int) -> None:
    """Share the copy with the pod's other ranks. The last one that ends removes it."""
    mine = os.getpid()

    def remove() -> None:
        if os.getpid() != mine:
            return  # a child that was forked
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(copy, ignore_errors=True)

    _held[str(copy)] = descriptor
    atexit.register(remove)


def _steps(files: Any, root: str) -> list[str]:
    """Steps, newest first. Their names are zero-padded, so they sort by number."""
    names = [str(entry).rstrip("/") for entry in files.ls(root, detail=False)]
    return sorted((name for name in names if local_store.is_step(name.rsplit("/", 1)[-1])), reverse=True)


def _fetch(files: Any, url: str, remote: str) -> Checkpoint | None:
    """The step's copy in this pod. The first rank that asks fetches it; the others wait."""
    try:
        text = files.cat_file(f"{remote}/{MANIFEST}")
        manifest = json.loads(text)
        digest = hashlib.sha256(url.encode() + text).hexdigest()[:16]
    except (OSError, ValueError):
        return None
    copy = _scratch() / f"{_COPY}{digest}"
    local = copy / remote.rsplit("/", 1)[-1]
    if str(copy) in _held:
        return local_store.load(local, verify=False)
    while _fetched(files, remote, manifest, copy):
        descriptor = _shared(copy)
        if descriptor is not None:
            _keep_while_we_live(copy, descriptor)
            return local_store.load(local, verify=False)
    return None


def _fetched(files: Any, remote: str, manifest: Any, copy: Path) -> bool:
    """Fetch the copy, unless another rank is doing so. False if that fails."""
    descriptor = _lock(copy, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if descriptor is None:
        return True  # another one is at it, or uses it
    try:
        _remove_unused(copy)
        if not (copy / _WHOLE).exists():
            shutil.rmtree(copy, ignore_errors=True)
            if not _download(files, remote, manifest, copy / remote.rsplit("/", 1)[-1]):
                shutil.rmtree(copy, ignore_errors=True)
                return False
            (copy / _WHOLE).touch()
    finally:
        os.close(descriptor)
    return True


def _shared(copy: Path) -> int | None:
    """A lock that keeps the copy, once the fetching rank is done; None if that rank failed or was killed."""
    descriptor = _lock(copy, fcntl.LOCK_SH)
    if descriptor is not None and not (copy / _WHOLE).exists():
        os.close(descriptor)
        return None
    return descriptor


def _download(files: Any, remote: str, manifest: Any, local: Path) -> bool:
    """True if all files arrived completely."""
    try:
        folder = manifest.get(_FOLDER, "")
        for name in manifest["files"]:
            (local / name).parent.mkdir(parents=True, exist_ok=True)
            files.get_file(f"{remote}/{folder}{name}", str(local / name))
        (local / MANIFEST).write_text(json.dumps(manifest))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return local_store.load(local) is not None
